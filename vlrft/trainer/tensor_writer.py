"""The tensors of a checkpoint: written and hashed in one pass, at once or by a background thread from copies in host memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread

import torch
from torch import Tensor

from vlrft.policy.weight_files import Read, write_tensors


class WriteCancelled(Exception):
    """A background write was given up, as the run ends at once."""


class TensorWriter:
    """Called as `vlrft.policy.weight_files.write_tensors`, for each file of a checkpoint."""

    def __init__(self, *, later: bool, cancelled: Event) -> None:
        """`later`: a call copies its tensors into host memory, one at a time, and `finish` writes them. False: a call writes,
        from the tensors themselves."""
        self.later = later
        self.digests: dict[Path, str] = {}  # sha256 of each file that was written
        self._cancelled = cancelled
        self._waiting: list[tuple[Path, Mapping[str, Tensor], dict[str, Tensor]]] = []

    def __call__(self, path: Path, shapes: Mapping[str, Tensor], read: Read) -> None:
        if self.later:
            copies = {name: read(name).detach().to("cpu", copy=True) for name in shapes}
            self._waiting.append((path, shapes, copies))
        else:
            self._write(path, shapes, read)

    def finish(self) -> None:
        """Writes what waits, and frees each tensor when it is written. Raises WriteCancelled."""
        while self._waiting:
            path, shapes, copies = self._waiting.pop()
            self._write(path, shapes, copies.pop)

    def _write(self, path: Path, shapes: Mapping[str, Tensor], read: Read) -> None:
        def read_unless_cancelled(name: str) -> Tensor:
            if self._cancelled.is_set():
                raise WriteCancelled
            return read(name)

        digest = sha256()
        write_tensors(path, shapes, read_unless_cancelled, digest.update)
        self.digests[path] = digest.hexdigest()


def shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors on the meta device."""
    return {name: torch.empty_like(tensor, device="meta") for name, tensor in tensors.items()}


class Background:
    """One call in a thread of its own."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._error: BaseException | None = None
        # A daemon: the process may end before it, and a checkpoint is whole or not there.
        self._thread = Thread(target=self._run, name="vlrft checkpoint", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._act()
        except BaseException as e:
            self._error = e

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Returns when the call has ended; raises its exception."""
        self._thread.join()
        if self._error is not None:
            raise self._error
