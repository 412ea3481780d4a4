"""The settings of a run: sampling, updates, stages, evaluation, checkpoints, logs and ranks."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from vlrft.config.policy import PolicyConfig
from vlrft.config.strict import strict
from vlrft.config.task import TaskConfig
from vlrft.schema.ranges import (
    FiniteFloat,
    Natural,
    NonNegativeFloat,
    Positive,
    PositiveFloat,
    Range,
    Seconds,
    Seed,
    Share,
    UnitInterval,
)

Beta = Annotated[float, Range(ge=0, lt=1)]
Tokens = Annotated[int, Range(ge=1, le=10_000_000)]  # of one prompt or completion
Count = Annotated[int, Range(ge=1, le=1_000_000)]  # of prompts in a step or completions of a prompt
Name = Annotated[str, StringConstraints(min_length=1)]
StopString = Annotated[
    str, StringConstraints(min_length=1)
]  # an empty one would end every completion


@strict
class RolloutConfig:
    """How completions are sampled."""

    engine: str | dict[str, Any] = "hf"
    """The rollout engine: `hf`, which samples with the policy's own module, or `{name: …}` with an engine's settings. One
    for the whole run: a stage cannot choose another."""
    group_size: Count = 8
    """G, the number of completions sampled for each prompt."""
    temperature: PositiveFloat = 1.0
    """Divides the logits, in sampling and in the log-probs of the update."""
    top_p: Share = 1.0
    """Sample from the most probable tokens whose probabilities sum up to this; 1: from all."""
    top_k: Natural = 0
    """Sample from this many most probable tokens; 0: from all."""
    max_tokens: Tokens = 256
    """The most tokens of a completion; in an environment, of each turn. A longer one is truncated."""
    stop: tuple[StopString, ...] = ()
    """Strings that end a completion, in addition to the end of the turn. Rewards get the text before them."""
    max_prompt_tokens: Tokens = 4096
    """The most tokens of a prompt, images included. A longer prompt is an error, it is never cut."""
    max_rows: Positive = 512
    """The most completions that are sampled at once."""
    max_cache_tokens: Positive = 524_288
    """The most tokens in the KV cache at once, each prompt counted once and each completion with `max_tokens`. Fewer than
    `max_rows` completions are sampled at once where they would need more."""


@strict
class UpdateConfig:
    """The optimiser step (AdamW)."""

    lr: NonNegativeFloat = 1e-6
    """Learning rate, after the warm-up."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """The learning rate after the warm-up: constant, or decaying to `min_lr_ratio` of `lr` at the end of the stage."""
    min_lr_ratio: UnitInterval = 0.0
    """The learning rate at the end of a decay, as a share of `lr`."""
    warmup_steps: Natural = 0
    """Optimiser steps in which the learning rate rises linearly to `lr`."""
    weight_decay: NonNegativeFloat = 0.0
    """AdamW's decoupled weight decay."""
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    """AdamW's decay rates of the first and the second moment."""
    eps: PositiveFloat = 1e-8
    """AdamW's ε. Set above the usual size of a gradient's entries, it makes steps shrink with the gradient, so that noise
    without a signal does not move the policy as far as a signal does."""
    max_grad_norm: PositiveFloat | None = 1.0
    """Gradients are clipped to this norm; null: they are not clipped."""
    master_weights: bool = True
    """Half-precision weights are trained through float32 copies. false: in place, where an update below the last bit of a
    weight is lost; for learning rates well above 1e-5 when memory is short."""
    updates_per_batch: Positive = 1
    """Optimiser steps per batch of rollouts, over disjoint mini-batches of groups."""
    max_tokens_per_micro_batch: Positive = 16384
    """The most packed tokens in one forward and backward pass; an image counts as the tokens that keep as much memory (0
    where the vision model is frozen). Results do not depend on it."""
    max_nonfinite_steps: Positive = 3
    """The run stops after this many consecutive steps that were skipped because of a NaN or an infinity."""


@strict
class StageConfig:
    """One stage of a run. `task`, `rollout` and `update` start from the run's own sections; give only what differs."""

    steps: Positive | None = None
    """Length of the stage in steps. Give either `steps` or `epochs`."""
    epochs: PositiveFloat | None = None
    """Length of the stage in passes over the training split, with `prompts_per_step` prompts per step."""
    name: Name | None = None
    """Name in logs and metrics; null: the algorithm's name, numbered where it is already taken."""
    algorithm: str | dict[str, Any] | None = None
    """Algorithm by name, or `{name: gpg, reduction: token, objective: {…}}` with some of its settings changed; null: the
    run's."""
    prompts_per_step: Count = 32
    """P, the number of prompts, and so of groups, in each step."""
    prompts: str | dict[str, Any] = "uniform"
    """How the next prompts are chosen: `uniform`, `variance_aware`, `history` or `greso`, or with settings
    `{name: greso, explore_solved: 0.2}`."""
    task: TaskConfig
    """The task of the stage; what it does not say is as in the run's `task`."""
    rollout: RolloutConfig = RolloutConfig()
    """Sampling in the stage; what it does not say is as in the run's `rollout`."""
    update: UpdateConfig = UpdateConfig()
    """Updates in the stage; what it does not say is as in the run's `update`."""

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either steps or epochs")


@strict
class EvalConfig:
    """Evaluation: before the first stage, after each stage, and at regular steps within a stage."""

    split: str = "test"
    """Split of the run's task."""
    limit: Positive | None = None
    """Only the first samples of the split, this many; null: all."""
    answers: Count = 1
    """k, the number of answers for each sample. With more than one, metrics are avg@k and pass@k."""
    temperature: NonNegativeFloat = 0.0
    """Temperature of the answers; 0: greedy decoding."""
    top_p: Share = 1.0
    """As `rollout.top_p`, for the answers."""
    max_tokens: Tokens | None = None
    """The most tokens of an answer; null: as `rollout.max_tokens`."""
    every: Natural = 0
    """Steps between evaluations within a stage; 0: none."""

    def __post_init__(self) -> None:
        if self.answers > 1 and self.temperature == 0:
            raise ValueError(
                f"answers {self.answers} at temperature 0 are all the same; give a temperature"
            )


@strict
class SaveConfig:
    """Checkpoints: at the end of each stage, and at regular steps within a stage."""

    every: Natural = 0
    """Steps between checkpoints within a stage; 0: none."""
    keep_last: Positive = 2
    """How many of the newest checkpoints are kept."""
    keep_best: Natural = 1
    """How many of the best checkpoints are kept in addition, by the mean score of the last evaluation before each."""
    background: bool | None = None
    """Write checkpoints while training goes on, from a copy in host memory. null: on a GPU; not on a CPU, where the copy
    would take memory from the training, and writing its time."""


@strict
class LogConfig:
    """Logs in addition to the console and `metrics.jsonl`."""

    trackers: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()
    """Trackers that the metrics are also sent to; each needs the extra of its name."""
    groups_per_step: Natural = 4
    """Groups of each step whose rollouts are written to `rollouts.jsonl`."""
    zero_reward_steps: Natural = 20
    """Steps in a row without any reward after which the run says so, with the likely reasons. A run without any reward from
    its first step to its last ends with exit code 3. 0: neither; a run with permuted rewards does neither."""


@strict
class RanksConfig:
    """The processes of a run, and time limits for several of them."""

    count: Positive | None = None
    """Processes that the run is meant for, each with its own GPU: as many are started by `vlrft launch`, and one of as many
    is planned by `vlrft doctor`, unless --ranks is given. null: one."""
    step_timeout: Seconds = 1800.0
    """Seconds after which a rank is reported as stuck, and the run ends, if it stays in one phase of a step while the
    others wait for it."""
    heartbeat_timeout: Seconds = 180.0
    """Seconds without a heartbeat after which a rank counts as lost, and the run ends. A rank whose process dies is
    noticed at once by its launcher."""


@strict
class Published:
    """The results that a paper reports for this run, which reports print next to the measured ones."""

    source: str
    """The paper and its table."""
    scores: dict[str, FiniteFloat] = field(default_factory=dict[str, float])
    """Name of a metric, as in an evaluation -> the printed value, in percent."""
    note: str = ""
    """How the paper's setting differs."""


@strict
class Config:
    """A training run: one task, one policy, one or more stages."""

    task: TaskConfig
    """The task that the policy is trained and evaluated on; a pack's name alone, or a section."""
    policy: PolicyConfig
    """The model that is trained."""
    stages: Annotated[tuple[StageConfig, ...], Field(min_length=1)]
    """The stages, in order, such as supervised fine-tuning and then reinforcement learning."""
    algorithm: str | dict[str, Any] = "gpg"
    """Algorithm of the stages that name none: a name that `vlrft list algorithms` prints, `./file.py:attribute`, or
    `{name: gpg, reduction: token, objective: {…}}` with some of its settings changed."""
    rollout: RolloutConfig = RolloutConfig()
    """How completions are sampled."""
    update: UpdateConfig = UpdateConfig()
    """The optimiser and its steps."""
    eval: EvalConfig = EvalConfig()
    """When and how the policy is evaluated."""
    save: SaveConfig = SaveConfig()
    """When checkpoints are written and which are kept."""
    log: LogConfig = LogConfig()
    """Trackers and `rollouts.jsonl`."""
    engine: str | dict[str, Any] = "single"
    """The train engine, which holds the weights and the optimiser: `single`, whole on every rank; `fsdp`, sharded over the
    ranks by PyTorch alone; `deepspeed`; or with settings, such as `{name: fsdp, offload: cpu}`."""
    ranks: RanksConfig = RanksConfig()
    """The number of processes and their time limits."""
    seed: Seed = 0
    """Seed of everything random. Equal configs give equal runs on the same machine."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the policy; auto: a GPU if there is one."""
    prefetch_threads: Natural = 2
    """Threads that open and process the images of the next step during the present one; 0: none."""
    permute_rewards: bool = False
    """Permute the rewards within each group: a control run, which must not learn."""
    published: Published | None = None
    """Results that a paper reports for this run."""
    memory_check: bool = True
    """Refuse a run whose planned peak is more memory than its device has, or whose disk has no room for a checkpoint, before
    the policy is loaded. false: start it all the same. The plan, which is that of `vlrft doctor`, is printed in both cases."""
    self_check: bool = True
    """Compare the packed forward pass with the plain one, and its log-probs with the rollout engine's, on the first batch of
    each stage, and stop if they differ."""
    profile: bool = False
    """Write `profile.md` with the time of each phase, and a trace of two steps of each stage."""
