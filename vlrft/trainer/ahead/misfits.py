"""Settings that do not go with a correction or with `rollout.ahead`, found before a model is loaded."""

from __future__ import annotations

from collections.abc import Iterable

from vlrft.algorithms import Algorithm
from vlrft.config import Config, StageConfig
from vlrft.rollout.engines import ROLLOUT_ENGINES, can_stream, find_rollout_engine
from vlrft.schema.errors import ConfigError
from vlrft.selection.prompt_strategies import PromptStrategy


def find_misfits(
    algorithm: Algorithm, strategy: PromptStrategy, stage: StageConfig, config: Config, at: str
) -> list[str]:
    """The mistakes of one stage, one line each. `at`: its key in the config."""
    if algorithm.answers != "sampled":
        return []
    mistakes = _truncated_sampling(algorithm, stage, at)
    ahead = f"{at}.rollout.ahead: {stage.rollout.ahead}"
    if not stage.rollout.ahead:
        return mistakes
    if not can_stream(find_rollout_engine(config.rollout.engine)):
        name = _name_of(config.rollout.engine)
        others = [n for n in ROLLOUT_ENGINES if can_stream(ROLLOUT_ENGINES[n]())]
        mistakes.append(
            f"{ahead}, but the rollout engine {name} samples with the module that is trained, and so not while it is "
            f"trained; use rollout.ahead=0, or rollout.engine={' or '.join(others) or 'one that streams'}"
        )
    if algorithm.correction is None:
        chosen = stage.algorithm if isinstance(stage.algorithm, str) else algorithm.name
        mistakes.append(
            f"{ahead}, but rollouts of earlier weights need an importance correction, and {algorithm.name} has none; use "
            f"rollout.ahead=0, or add: algorithm: {{name: {chosen}, correction: "
            "{level: token, rule: truncate, cap: 2.0}}"
        )
    if strategy.remembers:
        mistakes.append(
            f"{ahead}, but the prompts of a step then depend on rewards of steps that are not trained yet "
            f"({at}.prompts: {_name_of(stage.prompts)}); use rollout.ahead=0, or {at}.prompts=uniform"
        )
    return mistakes


def _truncated_sampling(algorithm: Algorithm, stage: StageConfig, at: str) -> list[str]:
    """A correction with log-probs of a part of the vocabulary: the ratio would be off without any step between them."""
    if algorithm.correction is None:
        return []
    rollout = stage.rollout
    changed = {"top_p": (rollout.top_p, 1.0), "top_k": (rollout.top_k, 0)}
    return [
        f"{at}.rollout.{key}: {value:g}, but algorithm.correction divides the trainer's probability of a token, among the "
        "whole vocabulary, by the sampler's, among the likeliest tokens: every ratio would be too small; use "
        f"rollout.{key}={off:g}, or algorithm.correction=null"
        for key, (value, off) in changed.items()
        if value != off
    ]


def refuse_several_ranks(stages: Iterable[tuple[str, StageConfig, Algorithm]], ranks: int) -> None:
    """Raises ConfigError for stages that sample ahead and must ask the other ranks whether to sample more."""
    mistakes = [
        f"stage {name}: rollout.ahead: {stage.rollout.ahead} on {ranks} ranks, but algorithm.keep samples up to "
        f"{algorithm.keep.max_attempts} times, which all ranks decide together; use rollout.ahead=0, "
        "algorithm.keep.max_attempts=1, or one rank"
        for name, stage, algorithm in stages
        if ranks > 1 and stage.rollout.ahead and algorithm.keep.max_attempts > 1
    ]
    if mistakes:
        raise ConfigError(mistakes)


def _name_of(choice: object) -> str:
    return str(choice.get("name")) if isinstance(choice, dict) else str(choice)
