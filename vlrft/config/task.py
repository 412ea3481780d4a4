"""The task of a run: a pack with its options, its rewards, and the limits of its environment."""

from __future__ import annotations

from dataclasses import field, fields
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainSerializer

from vlrft.config.strict import strict
from vlrft.schema.ranges import (
    FiniteFloat,
    Natural,
    NonNegativeFloat,
    Positive,
    Range,
    Seconds,
    Seed,
)

Retries = Annotated[int, Range(ge=0, le=100)]
Gigabytes = Annotated[float, Range(gt=0, le=1e6)]


def _require_workers(limits: RewardConfig | EnvConfig, *names: str) -> None:
    """Raises ValueError for one of these limits of worker processes where there are none."""
    for name in names:
        if getattr(limits, name) is not None and not limits.workers:
            raise ValueError(f"a {name} needs workers: 1 or more; only they can be cut off")


@strict
class RewardConfig:
    """The weight of a reward and where it is computed. A number alone is its weight."""

    weight: FiniteFloat = 1.0
    """Factor of the reward in the sum over all rewards."""
    workers: Natural = 0
    """Worker processes that compute it; 0: it is computed in the training process."""
    time_limit: Seconds | None = None
    """Seconds of a call, after which its worker is killed; null: 10. Without `workers`, of an asynchronous function alone: the
    call is cancelled; null: it may take any time."""
    memory_gb: Gigabytes | None = None
    """Resident memory of a worker, beyond which it is killed; null: half of the machine's. Needs `workers`."""
    on_error: Literal["raise", "zero", "none"] = "raise"
    """When a call raises, crashes or exceeds a limit: raise stops the run; zero counts 0.0; none: the reward does not apply to
    that completion, which gets the mean of the group's others, so that the failure changes no advantage. The errors are
    logged and counted."""
    retries: Retries = 0
    """How often a call that fails is made again before `on_error` counts, after 0.5, 1, 2, … seconds, at most 30."""
    completions: Literal["chat", "text"] | None = None
    """Form of the completions that a TRL-style function gets: chat messages or text; null: text if its parameter is
    annotated `list[str]`, otherwise chat."""

    def __post_init__(self) -> None:
        _require_workers(self, "memory_gb")


def _read_weight(value: Any) -> Any:
    """A bare number as a section."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"weight": value}
    if isinstance(value, dict | RewardConfig):
        return value
    raise ValueError(
        "expected a weight such as 1.0, or a section such as {weight: 1.0, workers: 2}"
    )


def _write_weight(config: RewardConfig) -> Any:
    """A bare number if all other settings have their defaults, otherwise a section."""
    if config == RewardConfig(weight=config.weight):
        return config.weight
    return {f.name: getattr(config, f.name) for f in fields(config)}


RewardEntry = Annotated[RewardConfig, BeforeValidator(_read_weight), PlainSerializer(_write_weight)]


@strict
class EnvConfig:
    """The limits of a task's environment, and what happens when it fails."""

    max_turns: Positive = 50
    """The most turns of an episode; the environment may end it earlier."""
    invalid_penalty: NonNegativeFloat = 0.0
    """Subtracted from the reward for each turn in which no action could be read."""
    workers: Natural = 0
    """Worker processes in which the environments run; 0: they run in the training process."""
    time_limit: Seconds | None = None
    """Seconds of an environment's turn, after which its worker is killed; null: 60. Its start, and the start of a worker,
    may take 120 seconds, or this where it is more. Needs `workers`."""
    memory_gb: Gigabytes | None = None
    """Resident memory of a worker, beyond which it is killed; null: half of the machine's. Needs `workers`."""
    on_error: Literal["raise", "keep", "drop", "drop_group"] = "raise"
    """When an environment raises, hangs or dies: raise stops the run; keep ends the episode with the reward it has; drop
    removes the rollout from the step; drop_group removes its group. In an evaluation all but raise count the episode as
    failed."""

    def __post_init__(self) -> None:
        _require_workers(self, "time_limit", "memory_gb")


@strict
class ExamplesConfig:
    """Questions with their gold answers and their images that every prompt begins with (in-context examples)."""

    count: Natural = 0
    """Examples before each question. They are the same for all questions; a question is never its own example."""
    split: str = "train"
    """The split that they are drawn from."""
    seed: Seed = 0
    """Draws them."""


@strict
class TaskConfig:
    """A task pack and its options."""

    name: str
    """A pack that `vlrft list tasks` prints, `package.module:task` or `./file.py:task`."""
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """The pack's own options; `vlrft show TASK` lists them."""
    rewards: dict[str, RewardEntry] | None = None
    """Name of a reward -> its weight, or a section; replaces the rewards of the pack. null: the pack's own. On the command
    line `task.rewards.NAME=w` changes one and keeps the others, and `task.rewards.NAME=null` removes it."""
    examples: ExamplesConfig = ExamplesConfig()
    """Questions with answers before each question, for a task without an environment."""
    env: EnvConfig = EnvConfig()
    """Settings of the environment, for a task that has one."""
    on_bad: Literal["error", "skip"] = "error"
    """Handling of rows that cannot be used (damaged, incomplete, a gold answer or a picture that cannot be read, a prompt above
    rollout.max_prompt_tokens), all of which are found before the first step. error: the run is refused. skip: they are left
    out, counted, and listed in the run's left_out.jsonl."""
