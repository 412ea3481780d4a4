"""Weights as files: in /dev/shm on one machine, else in a folder that all servers see."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from vlrft.policy.merging import stored_parameters
from vlrft.policy.policy import Policy
from vlrft.policy.weight_files import write_stream
from vlrft.rollout.engines.vllm.folder import SharedFolder
from vlrft.rollout.engines.vllm.server import Server
from vlrft.rollout.engines.vllm.transfer import Tensors, Update
from vlrft.schema.errors import ServerError


class WeightFiles:
    """The weights of the latest step, as the servers load them. Only the last ones are kept."""

    def __init__(self, policy: Policy, root: str | None, run: str, *, adapters: bool) -> None:
        """`root`: a folder that all servers see; None: shared memory. `adapters`: an update is the adapters alone."""
        self.policy, self.run, self.adapters = policy, run, adapters
        self.shapes, self.names = stored_parameters(policy.model)
        self.latest: Update | None = None
        needed = sum(shape.nbytes for shape in self.shapes.values())
        self._folder = SharedFolder(root, run, needed)

    def open_folder(self) -> Path:
        """See `Transfer`."""
        return self._folder.open()

    def write(self, parts: Sequence[Tensors], step: int) -> Update:
        """See `Transfer`. Every file is whole when its name is there."""
        before = self.latest
        if not self.adapters:
            _remove(None if before is None else before.weights)
            path = self._write_weights(parts[0], f"step_{step}.safetensors")
            self.latest = Update(run=self.run, step=step, weights=path)
            return self.latest
        base = None if before is None else before.weights
        if base is None:
            base = self._write_weights(parts[0], "base.safetensors")
        adapter = self.open_folder() / f"adapter_{step}"
        adapters = {name: tensor.to("cpu", copy=True) for name, tensor in parts[-1]}
        self.policy.model.save_pretrained(
            f"{adapter}.part", save_embedding_layers=False, state_dict=adapters
        )
        Path(f"{adapter}.part").rename(adapter)
        if before is not None and before.adapter is not None and before.adapter != adapter:
            shutil.rmtree(before.adapter, ignore_errors=True)
        self.latest = Update(
            run=self.run, step=step, weights=base, base=f"{self.run}-base", adapter=adapter
        )
        return self.latest

    async def prepare(self, server: Server, seconds: float) -> None:
        """Does nothing: files need no connection."""

    async def load(self, server: Server, update: Update, seconds: float) -> None:
        """See `Transfer`."""
        info = {"path": str(update.weights)}
        await server.post("/update_weights", seconds, {"update_info": info})

    def close(self) -> None:
        """Removes the files."""
        self._folder.close()

    def _write_weights(self, weights: Tensors, name: str) -> Path:
        path = self.open_folder() / name
        part = path.with_suffix(".part")
        try:
            write_stream(part, self.shapes, ((self.names[n], tensor) for n, tensor in weights))
        except OSError as e:
            raise ServerError(
                f"rollout.engine.folder: the weights cannot be written into {path.parent} ({e.strerror})"
            ) from e
        os.replace(part, path)
        return path


def _remove(path: Path | None) -> None:
    if path is not None:
        path.unlink(missing_ok=True)
