"""Removing a run's files from its folder, and nothing else: no foreign file, not the target of a link, never the folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vlrft.data.atomic import DRAFT
from vlrft.reporting.run_folder.names import (
    CHECKPOINTS,
    CONFIG,
    DRAFT_FOLDERS,
    FILES,
    FOLDERS,
    INERT,
    LOCK,
    MARK,
    STEP,
    is_checkpoint_file,
    listed_files,
)
from vlrft.schema.file_hashes import MANIFEST


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The entries of a folder by owner, as paths relative to it. A folder that no run makes is one entry, with a `/` at
    its end, and so is a link in place of a folder, which is not followed."""

    own: tuple[str, ...]
    """Files that runs write; a draft of a checkpoint is one entry."""
    foreign: tuple[str, ...]
    """Everything else, without the names of INERT."""

    def removable(self) -> list[str]:
        """The files that `--overwrite` removes. The mark, the lock and the config stay: the first two say whose folder it
        is if the removal is interrupted, and the config is replaced."""
        return [name for name in self.own if name not in (MARK, LOCK, CONFIG)]

    def foreign_in_checkpoints(self) -> tuple[str, ...]:
        """The foreign entries inside checkpoints."""
        inside = (name.split("/", 2) for name in self.foreign)
        return tuple(
            "/".join(parts)
            for parts in inside
            if len(parts) == 3 and parts[0] == CHECKPOINTS and STEP.fullmatch(parts[1])
        )


def read_run_folder(folder: Path) -> Contents:
    """The entries of a run's folder, or of one that may be none. Raises OSError where it cannot be read."""
    own, foreign = list[str](), list[str]()
    _scan(folder, "", own, foreign)
    return Contents(own=tuple(own), foreign=tuple(foreign))


def _scan(root: Path, prefix: str, own: list[str], foreign: list[str]) -> None:
    for entry in sorted(os.scandir(root / prefix), key=lambda e: e.name):
        name = f"{prefix}{entry.name}"
        if INERT.fullmatch(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            if prefix == f"{CHECKPOINTS}/" and STEP.fullmatch(entry.name):
                checkpoint = read_checkpoint(root / name)
                own += (f"{name}/{inner}" for inner in checkpoint.own)
                foreign += (f"{name}/{inner}" for inner in checkpoint.foreign)
            elif FOLDERS.fullmatch(name):
                _scan(root, f"{name}/", own, foreign)
            else:
                (own if DRAFT_FOLDERS.fullmatch(name) else foreign).append(f"{name}/")
        elif FILES.fullmatch(name) or (entry.is_symlink() and FOLDERS.fullmatch(name)):
            own.append(name)
        else:
            foreign.append(name)


def read_checkpoint(folder: Path) -> Contents:
    """The files of a checkpoint: its own are those in its manifest, and those that any checkpoint has."""
    own, foreign = list[str](), list[str]()
    listed = listed_files(folder)
    for parent, folders, files in os.walk(folder):
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        for file in sorted([*files, *links]):
            name = (Path(parent) / file).relative_to(folder).as_posix()
            if is_checkpoint_file(name, listed) or DRAFT.fullmatch(file):
                own.append(name)
            elif not INERT.fullmatch(file):
                foreign.append(name)
    return Contents(own=tuple(own), foreign=tuple(foreign))


def remove(folder: Path, names: Iterable[str]) -> None:
    """Removes files of `Contents.own`, and the run's folders that are empty then. Links are removed, not followed.

    Checkpoints go first, each with its manifest last: an interrupted removal leaves a run that resumes from a checkpoint
    that is left, or is overwritten again. Raises OSError where a file cannot be removed.
    """

    def order(name: str) -> tuple[object, ...]:
        top, _, rest = name.partition("/")
        checkpoint, _, file = rest.partition("/")
        return top != CHECKPOINTS, checkpoint, file == MANIFEST, file

    for name in sorted(names, key=order):
        if name.endswith("/"):
            shutil.rmtree(folder / name)
        else:
            (folder / name).unlink()
    for top in (path for path in folder.iterdir() if FOLDERS.fullmatch(path.name)):
        if not top.is_symlink():
            _remove_empty(top)


def remove_checkpoint(folder: Path) -> Collection[str]:
    """Removes a checkpoint's own files, and its folder if nothing else is in it; returns the names of what is left."""
    if folder.is_symlink():
        folder.unlink()
        return ()
    contents = read_checkpoint(folder)
    for name in sorted(contents.own, key=lambda name: name == MANIFEST):
        (folder / name).unlink()
    if not contents.foreign:
        shutil.rmtree(folder)
    else:
        _remove_empty(folder)
    return contents.foreign


def _remove_empty(folder: Path) -> None:
    """Removes the folder and those in it, as far as they are empty."""
    for parent, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            os.rmdir(parent)
