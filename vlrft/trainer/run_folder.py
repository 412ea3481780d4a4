"""The folder of a run: what may be started in it, its lock, and its clearing with `--overwrite`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from vlrft.config import Config
from vlrft.config.load import dump_config, load_config
from vlrft.data.atomic import DRAFT, write_atomically
from vlrft.data.writer_lock import WriterLock, lock
from vlrft.reporting.run_folder.mark import (
    has_resolved_config,
    has_run_logs,
    has_steps,
    how_to_mark,
    is_run,
    write_mark,
)
from vlrft.reporting.run_folder.names import CONFIG, LOCK, MARK
from vlrft.reporting.run_folder.removal import Contents, read_run_folder, remove
from vlrft.schema.errors import ConfigError
from vlrft.trainer.needed_files import refuse_needed_files
from vlrft.trainer.resumed_config import refuse_changes

SHOWN = 5  # names in a message


class RunFolder:
    """The folder of one run in this process, and its lock: `check` before the work begins, `claim` before anything is
    written, `release` when nothing more is."""

    def __init__(self, path: Path, *, resume: bool = False, overwrite: bool = False) -> None:
        self.path, self.resume, self.overwrite = path, resume, overwrite
        self.previous: Config | None = None
        """With `resume`: the config that the folder had."""
        self._lock: WriterLock | None = None

    def check(self, config: Config) -> None:
        """Refuses what `claim` would refuse, so that nothing is lost or done in vain, and locks a folder that exists.

        Raises ConfigError where the folder cannot be used as asked, and FolderInUse where another process writes it.
        """
        with _unwritable(self.path):
            if self.resume and self.overwrite:
                raise ConfigError(["--resume and --overwrite: give one of them"])
            if not _is_folder(self.path):
                if self.resume:
                    raise self._no_run_error("no such folder")
                _refuse_unwritable_parent(self.path)
                return
            self._refuse(config)
            self._take_lock()
            self._refuse(config)  # as it is now that nobody else writes

    def claim(self, config: Config) -> None:
        """Makes the folder this run's: creates and locks it, removes the run in it with `overwrite`, marks it, and
        writes the resolved config. Raises ConfigError and FolderInUse as `check` does."""
        with _unwritable(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            if self._lock is None:
                self._take_lock()
                self._refuse(config)
            contents = read_run_folder(self.path)
            if (
                not self.resume
                and not self.overwrite
                and is_run(self.path)
                and _holds_files(contents)
            ):
                print(
                    f"vlrft: {self.path}: replaces a run that had not done a step", file=sys.stderr
                )
                remove(self.path, contents.removable())
            elif self.overwrite:
                remove(self.path, contents.removable())
                if contents.foreign:
                    print(
                        f"vlrft: {self.path}: kept, as no run writes them: {_list(contents.foreign)}",
                        file=sys.stderr,
                    )
            else:
                remove(self.path, [name for name in contents.own if DRAFT.fullmatch(name)])
            write_mark(self.path)
            write_atomically(self.path / CONFIG, dump_config(config).encode())

    def refuse_if_lost(self) -> None:
        """Raises FolderInUse where another process has taken the folder over."""
        if self._lock is not None:
            self._lock.refuse_if_lost()

    def release(self) -> None:
        """Gives the lock up."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.release()

    def _take_lock(self) -> None:
        self._lock = lock(self.path / LOCK, str(self.path))

    def _refuse(self, config: Config) -> None:
        contents = read_run_folder(self.path)
        run = is_run(self.path)
        if self.resume:
            self._check_resumed(config, run)
            return
        if not run and (contents.foreign or not self._config_is_ours()):
            raise self._foreign_error(contents)
        unstarted = run and not has_steps(self.path) and not contents.foreign_in_checkpoints()
        if _holds_files(contents) and not self.overwrite and not unstarted:
            held = "a run; use --resume," if run else "what is left of a run; use"
            raise ConfigError([f"{self.path} holds {held} --overwrite or another --out"])
        if self.overwrite or unstarted:
            if inside := contents.foreign_in_checkpoints():
                raise ConfigError(
                    [
                        f"--overwrite: checkpoints of {self.path} contain files that no run writes: {_list(inside)}; "
                        "move them to another place, or use another --out"
                    ]
                )
            refuse_needed_files(config, self.path, contents)

    def _config_is_ours(self) -> bool:
        """Whether config.yaml, if there is one, is a run's: people name their files so, too."""
        return not os.path.lexists(self.path / CONFIG) or has_resolved_config(self.path)

    def _check_resumed(self, config: Config, run: bool) -> None:
        written = self.path / CONFIG
        if not run:
            raise self._no_run_error("it is not the folder of a run" + self._marking())
        if not written.is_file():
            raise self._no_run_error(f"{CONFIG} is missing")
        self.previous = load_config(written, secrets=False)
        refuse_changes(self.previous, config, written)

    def _no_run_error(self, reason: str) -> ConfigError:
        return ConfigError(
            [
                f"--resume: no run in {self.path} ({reason}); start one without --resume, or give the --out of a run"
            ]
        )

    def _foreign_error(self, contents: Contents) -> ConfigError:
        names = contents.foreign or contents.own
        return ConfigError(
            [
                f"{self.path} is not empty and not the folder of a run (it contains {_list(names)})"
                f"{self._marking()}; choose a new or empty folder as --out"
            ]
        )

    def _marking(self) -> str:
        """How to mark a folder that may be a run's."""
        if not has_run_logs(self.path):
            return ""
        return f"; if a run made it, mark it with: {how_to_mark(self.path)}"


def _holds_files(contents: Contents) -> bool:
    """Whether there is anything that a start without `overwrite` would overwrite or add to."""
    return any(n not in (MARK, LOCK) and not DRAFT.fullmatch(n) for n in contents.own)


def _list(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


@contextmanager
def _unwritable(folder: Path) -> Iterator[None]:
    """Turns an error of the file system into one line."""
    try:
        yield
    except ConfigError:
        raise
    except OSError as e:
        shown = str(folder) if len(str(folder)) <= 200 else f"{str(folder)[:200]}…"
        raise ConfigError(
            [f"{shown}: cannot be written ({e.strerror}); choose another --out"]
        ) from None


def _is_folder(path: Path) -> bool:
    """Whether it is a folder; False where nothing is there. Raises OSError for anything else."""
    try:
        path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise
        return False
    os.scandir(path).close()
    return True


def _refuse_unwritable_parent(path: Path) -> None:
    parent = next(p for p in path.absolute().parents if p.exists())
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(13, os.strerror(13))
