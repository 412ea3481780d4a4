"""The files through which weights reach the servers: in /dev/shm on one machine, else in a folder that all servers see."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

from vlrft.policy.merging import PlainWeights, stored_parameters
from vlrft.policy.policy import Policy
from vlrft.policy.weight_files import write_stream
from vlrft.rollout.engines.vllm.update import Update
from vlrft.schema.errors import ServerError
from vlrft.workers.server_process import KeptFolder

SHARED_MEMORY = Path("/dev/shm")
COPIES = 1.1  # of the weights, with some room


class WeightFiles:
    """The weights of the latest step, as the servers load them. Only the last ones are kept."""

    def __init__(self, policy: Policy, root: str | None, run: str, *, adapters: bool) -> None:
        """`root`: a folder that all servers see; None: shared memory. `adapters`: an update is the adapters alone."""
        self.policy, self.run, self.adapters = policy, run, adapters
        self.shapes, self.names = stored_parameters(policy.model)
        self.latest: Update | None = None
        self._private = root is None  # /dev/shm is everybody's
        self._root = Path(root) if root else shared_memory()
        self._folder: KeptFolder | None = None

    @property
    def folder(self) -> Path:
        """The folder of this run; created when it is first asked for."""
        if self._folder is None:
            self._check_room()
            self._folder = KeptFolder(self._root / f"vlrft-{self.run}", private=self._private)
        return self._folder.path

    def write(self, weights: Iterable[tuple[str, Tensor]], step: int) -> Update:
        """The update to the weights after a step. Every part of it is whole when its name is there."""
        before = self.latest
        if not self.adapters:
            _remove(None if before is None else before.weights)
            path = self._write_weights(weights, f"step_{step}.safetensors")
            self.latest = Update(run=self.run, step=step, weights=path)
            return self.latest
        rest = iter(weights)
        next(rest, None)  # from here on sharded weights are gathered
        base = None if before is None else before.weights
        if base is None:
            plain = PlainWeights(self.policy.model, adapters=False)
            base = self._write_weights(plain.parameters(), "base.safetensors")
        adapter = self.folder / f"adapter_{step}"
        self.policy.model.save_pretrained(f"{adapter}.part", save_embedding_layers=False)
        Path(f"{adapter}.part").rename(adapter)
        deque(rest, maxlen=0)
        if before is not None and before.adapter is not None and before.adapter != adapter:
            shutil.rmtree(before.adapter, ignore_errors=True)
        self.latest = Update(
            run=self.run, step=step, weights=base, base=f"{self.run}-base", adapter=adapter
        )
        return self.latest

    def close(self) -> None:
        """Removes the files."""
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def _write_weights(self, weights: Iterable[tuple[str, Tensor]], name: str) -> Path:
        path = self.folder / name
        part = path.with_suffix(".part")
        try:
            write_stream(part, self.shapes, ((self.names[n], tensor) for n, tensor in weights))
        except OSError as e:
            raise ServerError(
                f"rollout.engine.folder: the weights cannot be written into {self.folder} ({e.strerror})"
            ) from e
        os.replace(part, path)
        return path

    def _check_room(self) -> None:
        needed = int(COPIES * sum(shape.nbytes for shape in self.shapes.values()))
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


def _remove(path: Path | None) -> None:
    if path is not None:
        path.unlink(missing_ok=True)
