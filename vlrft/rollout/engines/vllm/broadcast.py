"""Weights by broadcast from the first rank to the servers' workers, without a file: see `server_group`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from vlrft.policy.merging import stored_parameters
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.vllm.folder import SharedFolder
from vlrft.rollout.engines.vllm.server import LostServer, Server
from vlrft.rollout.engines.vllm.server_group import meet, together
from vlrft.rollout.engines.vllm.transfer import Tensors, Update


class WeightBroadcast:
    """The weights of the latest step, in host memory: a server that comes back, or whose update failed, is sent them again while
    the policy is trained. Each server has a group of its own, so that one that is lost costs the others nothing."""

    def __init__(self, policy: Policy, run: str) -> None:
        self.run, self.device = run, policy.device
        self.shapes, self.names = stored_parameters(policy.model)
        self.latest: tuple[Update, dict[str, Tensor]] | None = None
        self._folder = SharedFolder(None, run, needed=0)

    def open_folder(self) -> Path:
        """See `Transfer`."""
        return self._folder.open()

    def write(self, parts: Sequence[Tensors], step: int) -> Update:
        """See `Transfer`."""
        self.latest = None  # two models would be in memory
        tensors = {
            self.names[name]: tensor.to("cpu", copy=True, memory_format=torch.contiguous_format)
            for name, tensor in parts[0]
        }
        if missing := self.shapes.keys() - tensors.keys():
            raise ValueError(f"rollout.engine: no tensor {min(missing)} among the weights")
        update = Update(run=self.run, step=step)
        self.latest = update, tensors
        return update

    async def prepare(self, server: Server, seconds: float) -> None:
        """See `Transfer`. Meets the workers of a server that are not met yet."""
        if server.group is None:
            server.group = await meet(server, self.device, seconds)

    async def load(self, server: Server, update: Update, seconds: float) -> None:
        """See `Transfer`."""
        if self.latest is None or self.latest[0] != update:
            raise LostServer(f"{server}: the weights of step {update.step} are being replaced")
        tensors, group = self.latest[1], server.group
        assert group is not None
        info = {
            "names": list(tensors),
            "dtypes": [str(tensor.dtype).removeprefix("torch.") for tensor in tensors.values()],
            "shapes": [list(tensor.shape) for tensor in tensors.values()],
        }
        asked = server.post("/update_weights", seconds, {"update_info": info})
        try:
            await together(server, lambda: group.send(tensors.values()), asked)
        except BaseException:
            server.leave_group()
            raise

    def close(self) -> None:
        """See `Transfer`."""
        self.latest = None
        self._folder.close()
