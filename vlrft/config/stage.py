"""The settings of a stage: sampling, updates, and the stage itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import StringConstraints

from vlrft.config.strict import strict
from vlrft.config.task import TaskConfig
from vlrft.schema.ranges import (
    Natural,
    NonNegativeFloat,
    Positive,
    PositiveFloat,
    Range,
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
    max_images: Positive | None = None
    """The most images of a prompt; null: any number. A prompt with more is an error, no image is left out."""
    max_rows: Positive = 512
    """The most completions that are sampled at once."""
    max_cache_tokens: Positive = 524_288
    """The most tokens in the KV cache at once, each prompt counted once and each completion with `max_tokens`. Fewer than
    `max_rows` completions are sampled at once where they would need more. Contexts kept between the turns of episodes take
    what these leave."""
    ahead: Natural = 0
    """K, the number of steps that sampling may be ahead of training: rollouts of step t are begun when the weights after
    step t − 1 − K are out. 0: a step is sampled when the one before it is trained. More needs an engine that samples on its
    own, and an algorithm with a `correction`."""


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
    """Optimiser steps per batch of rollouts, over disjoint mini-batches of groups; at most `prompts_per_step`."""
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
    """How the next prompts are chosen: `uniform`, `variance_aware`, `history`, `greso`, `tracked` or `cures`, or with settings
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
