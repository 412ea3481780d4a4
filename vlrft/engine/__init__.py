"""What the loop asks of the thing that holds weights and optimiser, and the kinds there are."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from vlrft.config import UpdateConfig
from vlrft.config.errors import chosen
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.engine.deepspeed import DeepSpeed
from vlrft.engine.forward import Scores
from vlrft.engine.single import Single
from vlrft.memory.rank_share import Share
from vlrft.memory.shapes import Model
from vlrft.policy.policy import Policy


class TrainEngine(Scores, Protocol):
    """One optimiser over one policy. Gradients are *summed* over ranks.

    With several ranks every method is called by all of them, as often and in the same order.
    """

    ranks: Ranks

    def backward(self, loss: Tensor) -> None: ...

    def step(self) -> dict[str, float]:
        """One optimiser step; metrics `grad_norm` and `lr`. Raises NonFiniteError, and then nothing was changed."""
        ...

    def discard(self) -> None:
        """Forgets the gradients gathered so far."""
        ...

    def whole(self) -> AbstractContextManager[None]:
        """Within it every rank holds all weights, and may run the policy alone; they are not to be changed."""
        ...

    def whole_on_first(self) -> AbstractContextManager[None]:
        """Within it rank 0 holds all weights, on its device or in its memory, to be read and written."""
        ...

    def sampling(self) -> AbstractContextManager[None]:
        """Within it the rollout engine may be asked for completions; the weights are not to be changed."""
        ...

    def state(self) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Tensors by `parameter/name`, whole whatever the number of ranks, and counters; rank 0's are written."""
        ...

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, float]) -> None:
        """Goes on from what `state` gave, of any engine and any number of ranks."""
        ...

    def close(self) -> None:
        """The stage is over: the policy is left as a plain one, its weights whole."""
        ...


@runtime_checkable
class EngineKind(Protocol):
    """Settings of an engine under `engine:` in a config."""

    def build(
        self, config: UpdateConfig, policy: Policy, total_steps: int, ranks: Ranks
    ) -> TrainEngine: ...

    def check(self, config: UpdateConfig, policy: Policy) -> None:
        """Raises ConfigError for what `build` would refuse, and changes nothing."""
        ...

    def holds(self, config: UpdateConfig, model: Model, ranks: int) -> Share:
        """What one of so many ranks would hold of the model and its training: for a plan, nothing is built."""
        ...


ENGINES: Mapping[str, type[Single] | type[DeepSpeed]] = {"single": Single, "deepspeed": DeepSpeed}


def find_engine(choice: str | Mapping[str, Any]) -> EngineKind:
    """An engine by name, or {name: …} with settings. Raises ConfigError for an unknown one and for wrong settings."""
    found: EngineKind = chosen(choice, ENGINES, "engine")
    return found


def choices() -> list[dict[str, Any]]:
    """The engines with the settings on which it depends what a rank holds, as a config would have them."""
    return [{"name": name, **given} for name, kind in ENGINES.items() for given in kind.CHOICES]


def build(
    config: UpdateConfig,
    policy: Policy,
    total_steps: int,
    ranks: Ranks = ALONE,
    kind: str | Mapping[str, Any] = "single",
) -> TrainEngine:
    """An engine of the kind, for a stage of so many steps."""
    return find_engine(kind).build(config, policy, total_steps, ranks)
