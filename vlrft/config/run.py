"""A run: how it samples, learns, evaluates, saves and logs, stage by stage."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import Field

from vlrft.config.policy import PolicyConfig
from vlrft.config.strict import Natural, Positive, strict
from vlrft.config.task import TaskConfig


@strict
class RolloutConfig:
    """How completions are sampled."""

    engine: str | dict[str, Any] = "hf"
    """Which engine samples: hf (the policy's own module), or {name: …} with the engine's settings. One for the whole run:
    a stage cannot choose another."""
    group_size: Positive = 8
    """G: completions a prompt."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Natural = 0
    """0: off."""
    max_tokens: Positive = 256
    stop: tuple[str, ...] = ()
    max_prompt_tokens: Positive = 4096
    """A longer prompt is refused, never cut."""
    max_rows: Positive = 512
    """Completions that are sampled at once."""
    max_cache_tokens: Positive = 524_288
    """Tokens whose keys and values are held at once, each prompt counted once and max_tokens a completion: fewer
    completions are sampled at once where they would be more."""


@strict
class UpdateConfig:
    """The optimiser step (AdamW)."""

    lr: Annotated[float, Field(gt=0)] = 1e-6
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: Natural = 0
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: Annotated[float, Field(gt=0)] = 1e-8
    """AdamW's ε. Above the usual size of a gradient's entries it makes steps shrink with the gradient, so that noise
    without a signal does not move the policy as far as a signal does."""
    max_grad_norm: Annotated[float, Field(gt=0)] | None = 1.0
    """Gradients are clipped to this norm; null: never."""
    master_weights: bool = True
    """Half-precision weights are trained through float32 copies; false: as they are, and what is below their last bit
    is lost: for learning rates well above 1e-5, where memory is short."""
    updates_per_batch: Positive = 1
    """Optimiser steps a batch of rollouts, over disjoint mini-batches of groups."""
    max_tokens_per_micro_batch: Positive = 16384
    max_nonfinite_steps: Positive = 3
    """So many skipped steps in a row stop the run."""


@strict
class StageConfig:
    """One part of a run. `task`, `rollout` and `update` start from the run's own and say only what differs."""

    steps: Positive | None = None
    epochs: Annotated[float, Field(gt=0)] | None = None
    """Instead of steps: how often prompts_per_step prompts a step go through the training split."""
    name: str | None = None
    """Defaults to the algorithm's name."""
    algorithm: str | dict[str, Any] | None = None
    """Defaults to the run's own: a name, or {name: gpg, reduction: token, objective: {...}}."""
    prompts_per_step: Positive = 32
    prompts: str | dict[str, Any] = "uniform"
    """Which prompts come next: uniform, variance_aware, history or greso; or {name: greso, explore_solved: 0.2}."""
    task: TaskConfig
    rollout: RolloutConfig = RolloutConfig()
    update: UpdateConfig = UpdateConfig()

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either steps or epochs")


@strict
class EvalConfig:
    """Evaluation at the start, after each stage and every so many steps."""

    split: str = "test"
    limit: Positive | None = None
    answers: Positive = 1
    """k: answers a sample; figures are then avg@k and pass@k."""
    temperature: Annotated[float, Field(ge=0)] = 0.0
    """0: greedy."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_tokens: Positive | None = None
    """The rollout's own unless given."""
    every: Natural = 0
    """0: only before the first stage and after each."""

    def __post_init__(self) -> None:
        if self.answers > 1 and self.temperature == 0:
            raise ValueError(
                f"answers {self.answers} at temperature 0 are all the same; give a temperature"
            )


@strict
class SaveConfig:
    """Checkpoints: at the end of each stage and every so many steps."""

    every: Natural = 0
    keep_last: Positive = 2
    keep_best: Natural = 1
    """By the mean score of the evaluation nearest before."""


@strict
class LogConfig:
    """Where metrics go besides metrics.jsonl and the console."""

    trackers: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()
    groups_per_step: Natural = 4
    """Groups a step that rollouts.jsonl keeps."""


@strict
class RanksConfig:
    """Several processes that train together."""

    step_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1800.0
    """Seconds in which a rank that the others wait for must get from one phase of its work to another."""
    heartbeat_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 180.0
    """Seconds in which a rank must say that it lives. One that dies is known at once to what started it."""


@strict
class Published:
    """What a paper reports for the run, so that a report prints it beside what was measured."""

    source: str
    """The paper and its table."""
    scores: dict[str, float] = field(default_factory=dict[str, float])
    """Figure as an evaluation names it -> percent, as printed."""
    note: str = ""


@strict
class Config:
    """A run."""

    task: TaskConfig
    policy: PolicyConfig
    stages: Annotated[tuple[StageConfig, ...], Field(min_length=1)]
    algorithm: str | dict[str, Any] = "gpg"
    rollout: RolloutConfig = RolloutConfig()
    update: UpdateConfig = UpdateConfig()
    eval: EvalConfig = EvalConfig()
    save: SaveConfig = SaveConfig()
    log: LogConfig = LogConfig()
    engine: str | dict[str, Any] = "single"
    """What holds the optimiser: single, deepspeed, or {name: deepspeed, stage: 3, offload: cpu}."""
    ranks: RanksConfig = RanksConfig()
    seed: Annotated[int, Field(strict=True)] = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    prefetch_threads: Natural = 2
    """Threads that open and process the images of the step to come; 0: none."""
    permute_rewards: bool = False
    """Deal each group's rewards to other rollouts: a control run that must not learn."""
    published: Published | None = None
    self_check: bool = True
    """The first batch's packed forward must equal the replicated one."""
    profile: bool = False
    """Write where the time goes: profile.md, and a trace of two steps of each stage (see `profiler.py`)."""
