"""A reward with its weight, and what its calls return: checked, and as named scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

from vlrft.plugins.attribution import attributed
from vlrft.plugins.reward_signature import RewardSignature, signature_of
from vlrft.schema import DataError, RewardError
from vlrft.schema.errors import UnsendableError, WorkerMemoryError, WorkerTimeout
from vlrft.schema.finite_number import LARGEST, read_finite
from vlrft.schema.short_message import first_line, short_message
from vlrft.scoring.calls import Outcome
from vlrft.scoring.reward_input import RewardInput
from vlrft.workers.worker import Workers

TIME_LIMIT = 10.0  # seconds of a call in a worker unless the config says otherwise

Scores = dict[str, float | None]
"""Score name -> value; None: the score does not apply."""


class RewardResult(NamedTuple):
    """The scores that one reward gives one rollout, the error that made them 0.0 or None, if any, and how often the call
    was made again. `imputed`: the scores that the rollout's reward counts in place of those that failed."""

    scores: Scores
    error: str | None = None
    retries: int = 0
    imputed: Mapping[str, float] | None = None


@dataclass(frozen=True, kw_only=True)
class WeightedReward:
    """A reward with the name and the weight from a task or a config.

    With `workers` its calls are made there, where it is loaded by `reference`, each with `time_limit` seconds; without, those of
    an asynchronous function have as many, or any time. `on_error`:
    a call that raises, exceeds its time limit or returns no number fails the step, counts 0.0, or does not apply; it is
    noted in the rollout's `errors`. Before that it is made again `retries` times where it raises. An unreadable gold answer
    always fails the step. `strings`: a TRL function that reads completions as texts.
    """

    name: str
    weight: float
    function: Callable[..., Any]
    reference: str | None = None
    workers: Workers | None = None
    time_limit: float | None = None
    on_error: Literal["raise", "zero", "none"] = "raise"
    retries: int = 0
    strings: bool | None = None

    @property
    def best_score(self) -> float:
        """The highest score that the function gives, as declared by `vlrft.schema.best_score`; 1.0 without a declaration."""
        return float(getattr(self.function, "best_score", 1.0))

    @cached_property
    def signature(self) -> RewardSignature:
        """How the function is called. Raises PluginError for a function that is not a reward."""
        signature = signature_of(self.function)
        return signature if self.strings is None else replace(signature, strings=self.strings)


def check_outcome(
    reward: WeightedReward, inputs: Sequence[RewardInput], outcome: Outcome
) -> list[RewardResult]:
    """The results of one call, one for each of its inputs. Raises DataError, and RewardError where `on_error` is `raise`."""
    try:
        values = _split_outcome(reward, inputs, outcome)
    except RewardError as e:
        return [_failed_result(reward, e) for _ in inputs]
    results: list[RewardResult] = []
    for reward_input, value in zip(inputs, values, strict=True):
        try:
            results.append(RewardResult(_named_scores(reward, reward_input, value)))
        except RewardError as e:
            results.append(_failed_result(reward, e))
    return results


def _failed_result(reward: WeightedReward, error: RewardError) -> RewardResult:
    if reward.on_error == "raise":
        raise error
    return RewardResult({reward.name: 0.0 if reward.on_error == "zero" else None}, str(error))


def _split_outcome(
    reward: WeightedReward, inputs: Sequence[RewardInput], outcome: Outcome
) -> Sequence[Any]:
    """The outcome as one value for each input."""
    if isinstance(outcome, DataError):
        raise outcome
    if isinstance(outcome, BaseException):
        raise reward_error(reward, inputs, _describe(outcome)) from outcome
    if reward.signature.scope == "rollout":
        return [outcome]
    if hasattr(outcome, "tolist"):
        with attributed(f"reward {reward.name}: the `tolist` of its scores", RewardError):
            outcome = outcome.tolist()
    if not isinstance(outcome, list | tuple):
        problem = f"returned a {type(outcome).__name__}, not a list with one score per completion"
        raise reward_error(reward, inputs, problem)
    if len(outcome) != len(inputs):
        problem = f"returned {len(outcome)} scores for {len(inputs)} completions"
        raise reward_error(reward, inputs, problem)
    return outcome


def _named_scores(reward: WeightedReward, reward_input: RewardInput, value: object) -> Scores:
    """The returned value as scores under their full names, checked to be finite."""
    if type(value) is float:  # the most frequent case
        return {reward.name: _read_score(value, reward, reward_input)}
    if isinstance(value, Mapping):
        try:
            named = {f"{reward.name}/{part}": number for part, number in value.items()}
        except Exception as e:
            problem = f"returned a {type(value).__name__} that cannot be read ({short_message(e)})"
            raise reward_error(reward, [reward_input], problem) from e
    else:
        named = {reward.name: value}
    return {name: _read_score(number, reward, reward_input) for name, number in named.items()}


def _read_score(value: object, reward: WeightedReward, reward_input: RewardInput) -> float | None:
    if value is None:
        return None
    try:
        score = read_finite(value)
    except ValueError as e:
        raise reward_error(reward, [reward_input], f"returned {e}") from None
    if abs(score * reward.weight) > LARGEST:
        problem = (
            f"returned {score:g}, with its weight {reward.weight:g} a reward beyond ±{LARGEST:g}"
        )
        raise reward_error(reward, [reward_input], problem)
    return score


def _describe(error: BaseException) -> str:
    """A predicate that follows the reward's name in a message."""
    if isinstance(error, WorkerTimeout):
        return f"{first_line(error)}; raise its time_limit or make it faster"
    if isinstance(error, WorkerMemoryError):
        return f"{first_line(error)}; raise its memory_gb or make it smaller"
    if isinstance(error, RewardError):
        return first_line(error)
    text = first_line(error) if isinstance(error, UnsendableError) else short_message(error)
    return f"raised {text}"


def reward_error(
    reward: WeightedReward, inputs: Sequence[RewardInput], problem: str
) -> RewardError:
    names = list(dict.fromkeys(x.sample.id for x in inputs))
    where = f"sample {names[0]}" if len(names) == 1 else f"samples {names[0]} … {names[-1]}"
    return RewardError(f"{where}: reward {reward.name} {problem}")
