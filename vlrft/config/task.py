"""What is trained on: a pack, its rewards, its environment."""

from __future__ import annotations

from dataclasses import field, fields
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from vlrft.config.strict import Natural, Positive, strict


@strict
class RewardConfig:
    """How much a reward counts and where it is computed. A bare number is its weight alone."""

    weight: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    workers: Natural = 0
    """Processes that compute it beside the run; 0: in the run's own."""
    time_limit: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Seconds a call may take in a worker, which is then killed; 10 unless given."""
    on_error: Literal["raise", "zero"] = "raise"
    """A call that raises, crashes or runs over its time stops the run; zero: it counts 0.0 and is logged."""
    completions: Literal["chat", "text"] | None = None
    """What a TRL-style function gets; text where it is annotated list[str], chat elsewhere, unless given."""

    def __post_init__(self) -> None:
        if self.time_limit is not None and not self.workers:
            raise ValueError("a time_limit needs workers: 1 or more; only they can be cut off")


def _from_weight(given: Any) -> Any:
    """A bare number as a section."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        return {"weight": given}
    if isinstance(given, dict | RewardConfig):
        return given
    raise ValueError(
        "expected a weight such as 1.0, or a section such as {weight: 1.0, workers: 2}"
    )


def _to_weight(config: RewardConfig) -> Any:
    """The short form where it says everything."""
    short = RewardConfig(weight=config.weight)
    return (
        config.weight
        if config == short
        else {f.name: getattr(config, f.name) for f in fields(config)}
    )


Weighed = Annotated[RewardConfig, BeforeValidator(_from_weight), PlainSerializer(_to_weight)]


@strict
class EnvConfig:
    """How the plays of a task with an environment go."""

    max_turns: Positive = 50
    """A longer play is cut off; its environment may end it earlier."""
    invalid_penalty: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Taken off the reward at each turn in which no action could be read."""
    workers: Natural = 0
    """Processes that the environments live in; 0: the run's own."""
    time_limit: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Seconds an environment may take over a turn in a worker, which is then killed; 60 unless given."""
    on_error: Literal["raise", "keep", "drop", "drop_group"] = "raise"
    """An environment that raises, hangs or dies stops the run; keep: its rollout counts with what it had earned; drop:
    the rollout, or the whole group, leaves the step. An evaluation counts such a play as a failed one, unless raise."""

    def __post_init__(self) -> None:
        if self.time_limit is not None and not self.workers:
            raise ValueError("a time_limit needs workers: 1 or more; only they can be cut off")


@strict
class TaskConfig:
    """Which pack, with which of its options."""

    name: str
    """A built-in pack, an entry point, `package.module:task` or `./file.py:task`."""
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """The pack's own options (`vlrft show TASK` lists them)."""
    rewards: dict[str, Weighed] | None = None
    """Reward name -> weight, or a section with its weight and where it is computed; the pack's own unless given."""
    env: EnvConfig = EnvConfig()
    """For a task with an environment."""
