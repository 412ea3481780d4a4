"""The contract of train engines: one protocol per concern, and the settings that build an engine.

    ForwardPass     the policy, and the module call that scores its tokens
    Optimiser       backward, step, discard
    WeightAccess    contexts in which sharded weights are complete
    OptimiserState  the optimiser's part of a checkpoint
    TrainEngine     all of these over one group of ranks

A new engine is one file or package in this folder that defines `KIND`, an `EngineKind`; no other file changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor

from vlrft.config import UpdateConfig
from vlrft.distributed.ranks import Ranks
from vlrft.memory.rank_memory import RankMemory
from vlrft.memory.shapes import ModelShape
from vlrft.policy.policy import Policy
from vlrft.policy.policy_weights import Needs
from vlrft.policy.scorer import ScorerCall


@runtime_checkable
class ForwardPass(Protocol):
    """The policy under training, as `vlrft.engine.forward.token_logprobs` runs it."""

    policy: Policy
    scorer: ScorerCall | None
    """The engine's wrapper of `policy.scorer`; None: the policy's scorer is called as it is."""


@runtime_checkable
class Optimiser(Protocol):
    """Gradients, *summed* over micro-batches and ranks, and the step that uses them."""

    def backward(self, loss: Tensor, *, last: bool) -> None:
        """Adds the gradient of a micro-batch's loss []. `last`: it is the step's last one, so that an engine may send
        gradients to other ranks while it computes them."""
        ...

    def step(self) -> dict[str, float]:
        """One optimiser step; returns `grad_norm` and `lr`.

        Raises NonFiniteError, and then changes no weight; and DivergedError where a weight is not finite afterwards (see
        `vlrft.engine.finite_weights`).
        """
        ...

    def discard(self) -> None:
        """Drops the gradients accumulated so far."""
        ...

    def reset_moments(self) -> None:
        """Makes the optimiser forget: its moments and its count of steps are 0 again, as at the stage's start. The schedule of
        the learning rate goes on."""
        ...


@runtime_checkable
class WeightAccess(Protocol):
    """Contexts in which weights that an engine shards can be used as if they were not sharded."""

    def unsharded(self) -> AbstractContextManager[None]:
        """Every rank holds all weights and may run the policy on its own. The weights must not be changed."""
        ...

    def unsharded_on_first_rank(self) -> AbstractContextManager[None]:
        """Rank 0 holds all weights, on its device or in its host memory, as a checkpoint stores them: adapters are exact, also
        where the engine computes with rounded ones. The policy is not run."""
        ...

    def gather_in_turn(self, needs: Needs) -> Iterator[str]:
        """The names, in an order that is the same on all ranks. While a name is the current one, every rank holds the parameters
        that it needs, complete, together with those of its layer and no others. All ranks iterate together, to the end; the
        policy is not run meanwhile."""
        ...

    def ready_to_sample(self) -> AbstractContextManager[None]:
        """The rollout engine may be called. The weights must not be changed."""
        ...


@runtime_checkable
class OptimiserState(Protocol):
    """The optimiser's part of a checkpoint. It is independent of the engine and of the number of ranks."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Unsharded tensors by `parameter/name`, and counters; a checkpoint keeps those of rank 0."""
        ...

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, float]) -> None:
        """Restores the result of `state`, of any engine and any number of ranks."""
        ...


@runtime_checkable
class TrainEngine(ForwardPass, Optimiser, WeightAccess, OptimiserState, Protocol):
    """One optimiser over one policy, for one stage of a run.

    With several ranks every method is called by all of them, equally often and in the same order.
    """

    ranks: Ranks

    def close(self) -> None:
        """Ends the stage: the policy is an ordinary module again, its weights unsharded."""
        ...


@runtime_checkable
class EngineKind(Protocol):
    """Settings of an engine, under `engine` in a config: a `strict` dataclass whose fields are the keys next to
    `name`. Those of an engine that can train adapters over 4-bit weights have `PACKED = True`."""

    def build(
        self, config: UpdateConfig, policy: Policy, total_steps: int, ranks: Ranks
    ) -> TrainEngine: ...

    def check(self, config: UpdateConfig, policy: Policy) -> None:
        """Raises ConfigError for whatever `build` would refuse, and changes nothing."""
        ...


@runtime_checkable
class MemoryModel(Protocol):
    """An engine kind whose memory `vlrft doctor` can plan. Optional: see `vlrft.engine.find.rank_memory`."""

    CHOICES: ClassVar[tuple[dict[str, Any], ...]]
    """Every combination of settings that changes the memory, as a config writes them."""

    def rank_memory(self, config: UpdateConfig, model: ModelShape, ranks: int) -> RankMemory:
        """Memory of one of `ranks` ranks for the model and its training, by formula: nothing is built."""
        ...
