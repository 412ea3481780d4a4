"""The output folder of `vlrft data prepare`: one writer at a time, and no file in it that was not prepared is replaced."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from vlrft.data.prepared import MANIFEST, read_manifest
from vlrft.data.writer_lock import WriterLock, lock
from vlrft.schema import DataError
from vlrft.schema.errors import ConfigError

LOCK = ".vlrft-prepare.lock"


def lock_folder(out: Path) -> WriterLock:
    """Makes the folder and locks it. Raises FolderInUse, and ConfigError where it cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        return lock(out / LOCK, str(out))
    except OSError as e:
        raise ConfigError([f"{str(out)[:200]}: cannot be written ({e.strerror})"]) from None


def refuse_foreign_split(out: Path, split: str) -> None:
    """Raises ConfigError where SPLIT.jsonl or SPLIT.defects.jsonl exists and the manifest does not list the split: it may
    be the raw data."""
    listed = split in _splits(out)
    for name in (f"{split}.jsonl", f"{split}.defects.jsonl"):
        if (out / name).exists() and not listed:
            raise ConfigError(
                [
                    f"{out / name} exists, and {MANIFEST} does not list it: vlrft data prepare did not write it; "
                    "use another --out"
                ]
            )


def is_prepared(out: Path, split: str) -> bool:
    """Whether the folder has the split; False where a call that would have replaced it was interrupted.

    Raises ConfigError where SPLIT.jsonl is not the file that was prepared.
    """
    path = out / f"{split}.jsonl"
    if not path.exists() or (out / f"{path.name}.part").exists():
        return False
    refuse_foreign_split(out, split)
    if hashlib.sha256(path.read_bytes()).hexdigest() != _splits(out)[split].get("sha256"):
        raise ConfigError(
            [
                f"{path} was changed after it was prepared; put it back, or prepare it again with --overwrite"
            ]
        )
    return True


def refuse_other_settings(out: Path, split: str, task: str, settings: str) -> None:
    """Raises ConfigError where a prepared split is another task's, or was prepared with other options or data: `settings` is the
    hash of both that `prepare` got."""
    path = out / MANIFEST
    owner = read_manifest(path.read_bytes(), str(path)).get("task")
    if owner != task:
        raise ConfigError([f"{out}: contains the data of {owner!r}; use another --out"])
    stored = _splits(out)[split].get("settings", settings)  # earlier versions stored none
    if stored != settings:
        raise ConfigError(
            [
                f"{out}: the {split} split was prepared from other data or with other options; prepare it again with --overwrite, or "
                "use another --out"
            ]
        )


def refuse_other_prompts(out: Path, split: str, prompts: Mapping[str, object]) -> None:
    """Raises ConfigError where the prompts of a prepared split were measured otherwise, or not at all."""
    stored = _splits(out)[split].get("prompts")
    if stored != prompts:
        found = f"for {stored}" if stored else "without --model"
        raise ConfigError(
            [
                f"{out}: the {split} split was prepared {found}, not for {prompts}; prepare it again with --overwrite, or "
                "use another --out"
            ]
        )


def refuse_other_thoughts(out: Path, split: str, digest: str | None) -> None:
    """Raises ConfigError where a prepared split has other thoughts of a table, or where it has some and there are to be none."""
    stored = _splits(out)[split].get("thoughts")
    if stored != digest:
        problem = "without --thoughts" if stored is None else "with other --thoughts"
        raise ConfigError(
            [
                f"{out}: the {split} split was prepared {problem}; prepare it again with --overwrite, or use another --out"
            ]
        )


def _splits(out: Path) -> dict[str, dict[str, object]]:
    path = out / MANIFEST
    if not path.exists():
        return {}
    splits = read_manifest(path.read_bytes(), str(path)).get("splits")
    if not isinstance(splits, dict) or not all(isinstance(s, dict) for s in splits.values()):
        raise DataError(f"{path}: not a manifest of prepared data; use another --out")
    return splits
