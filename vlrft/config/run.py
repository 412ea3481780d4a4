"""The settings of a run: its stages (see `stage`), evaluation, checkpoints, logs and ranks."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import Field

from vlrft.config.policy import PolicyConfig
from vlrft.config.stage import (
    Count,
    RolloutConfig,
    StageConfig,
    Tokens,
    UpdateConfig,
)
from vlrft.config.strict import strict
from vlrft.config.task import TaskConfig
from vlrft.schema.ranges import (
    FiniteFloat,
    Natural,
    NonNegativeFloat,
    Positive,
    Seconds,
    Seed,
    Share,
)


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
        if self.top_p < 1 and self.temperature == 0:
            raise ValueError(
                f"top_p {self.top_p:g} has no effect at temperature 0, where the likeliest token is taken; "
                "give a temperature, or top_p 1"
            )
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
    """How many of the best checkpoints are kept in addition, by the mean score of the last evaluation up to each; of those with
    one score the oldest, which is the nearest to its evaluation."""
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
    """Permute the rewards within each group, and those of groups of one among themselves: a control run, which must not learn."""
    published: Published | None = None
    """Results that a paper reports for this run."""
    memory_check: bool = True
    """Refuse a run whose planned peak is more memory than its device has, or whose disk has no room for a checkpoint, before
    the policy is loaded. false: start it all the same. The plan, which is that of `vlrft doctor`, is printed in both cases."""
    self_check: bool = True
    """Compare the packed forward pass with the plain one, and its log-probs with the rollout engine's, on the first batch of
    each stage that has rows to train on, and stop if they differ."""
    profile: bool = False
    """Write `profile.md` with the time of each phase, and a trace of two steps of each stage."""
