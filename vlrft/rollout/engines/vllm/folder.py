"""The folder that a run shares with its servers: in /dev/shm on one machine, else where all servers see it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from vlrft.schema.errors import ServerError
from vlrft.workers.server_process import KeptFolder

SHARED_MEMORY = Path("/dev/shm")
COPIES = 1.1  # of the weights, with some room


class SharedFolder:
    """A folder of one run, created when it is first asked for and gone when the run ends, killed or not."""

    def __init__(self, root: str | None, run: str, needed: int) -> None:
        """`root`: a folder that all servers see; None: shared memory. `needed`: bytes of the weights that go through it."""
        self.run, self.needed = run, needed
        self._private = root is None  # /dev/shm is everybody's
        self._root = Path(root) if root else shared_memory()
        self._folder: KeptFolder | None = None

    def open(self) -> Path:
        """The folder. Raises ServerError where there is no room."""
        if self._folder is None:
            self._check_room()
            self._folder = KeptFolder(self._root / f"vlrft-{self.run}", private=self._private)
        return self._folder.path

    def close(self) -> None:
        """Removes the folder."""
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def _check_room(self) -> None:
        needed = int(COPIES * self.needed)
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self._root).free
        except OSError as e:
            raise ServerError(f"rollout.engine.folder: {self._root}: {e.strerror}") from e
        if free < needed:
            raise ServerError(
                f"rollout.engine.folder: {self._root} has {free / 2**30:.1f} GB free, and the weights need "
                f"{needed / 2**30:.1f} GB; give another folder, or more shared memory (docker run --shm-size)"
            )


def shared_memory() -> Path:
    """The folder whose files are in memory; where there is none, that of temporary files."""
    return SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
