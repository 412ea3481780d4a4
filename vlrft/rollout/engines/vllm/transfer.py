"""How weights reach the servers: what each way offers, and which tensors all ranks read for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from torch import Tensor

from vlrft.policy.policy_weights import PolicyWeights
from vlrft.rollout.engines.vllm.server import Server

Tensors = Iterator[tuple[str, Tensor]]


@dataclass(frozen=True, kw_only=True)
class Update:
    """The weights after a step of a run."""

    run: str  # tells this run from another one at the same servers
    step: int
    # The file with all of them, or with the base of an adapter, if there is one.
    weights: Path | None = None
    base: str = ""  # the version of `weights` where an adapter comes on top
    adapter: Path | None = None

    @property
    def version(self) -> str:
        """The label of the weights on a server."""
        return f"{self.run}-{self.step}"

    @property
    def model(self) -> str | None:
        """The model that requests name: the adapter, or the only one."""
        return None if self.adapter is None else self.version

    def step_of(self, version: str) -> int | None:
        """The step of a label; None for one of another run, or of a server that has never been updated."""
        run, _, step = version.rpartition("-")
        return int(step) if run == self.run and step.isdecimal() else None


@runtime_checkable
class Transfer(Protocol):
    """A way of the weights, on the first rank. It keeps those of the latest step, for servers that come back."""

    def open_folder(self) -> Path:
        """A folder of this run on this machine, created when it is first asked for and gone when the run ends."""
        ...

    def write(self, parts: Sequence[Tensors], step: int) -> Update:
        """Takes over the weights after a step, from `weight_parts`."""
        ...

    async def prepare(self, server: Server, seconds: float) -> None:
        """Before each update of a server. Raises ServerError."""
        ...

    async def load(self, server: Server, update: Update, seconds: float) -> None:
        """Loads the weights of the update, with an adapter those of its base, into a server that has begun an update. Raises
        ServerError."""
        ...

    def close(self) -> None:
        """Frees what is kept."""
        ...


def weight_parts(
    weights: Iterable[tuple[str, Tensor]], *, adapters: bool, first: bool
) -> tuple[Tensors, ...]:
    """The tensors that every rank iterates over, in this order and to the end: all weights; or with `adapters` these alone, the
    `first` time after their base."""
    if not adapters:
        return (iter(weights),)
    assert isinstance(weights, PolicyWeights)
    return (weights.base(), weights.adapters()) if first else (weights.adapters(),)


def take_over(
    transfer: Transfer | None, parts: Sequence[Tensors], step: int
) -> Update | Exception | None:
    """The update to the weights after a step, or why there is none; None without a transfer, on ranks other than the first.

    The parts are read to their end in any case: sharded weights are gathered by all ranks together, and the others would wait for
    a first rank that stops in between.
    """
    result: Update | Exception | None = None
    if transfer is not None:
        try:
            result = transfer.write(parts, step)
        except Exception as e:
            result = e
    for part in parts:
        deque(part, maxlen=0)
    return result
