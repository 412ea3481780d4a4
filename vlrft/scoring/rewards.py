"""The reward of a rollout: the weighted sum of the named rewards that apply to it, with each score kept in `scores`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

from vlrft.plugins.attribution import attributed
from vlrft.plugins.process_state import keeping_process_state
from vlrft.plugins.reward_signature import RewardSignature, signature_of
from vlrft.schema import DataError, RewardError, Rollout
from vlrft.schema.errors import UnsendableError, WorkerMemoryError, WorkerTimeout
from vlrft.schema.finite_number import LARGEST, read_finite
from vlrft.schema.short_message import first_line, short_message
from vlrft.scoring.calls import Outcome, RewardInput, split_into_calls, start_calls
from vlrft.tracing.phases import phase
from vlrft.workers.worker import Workers

TIME_LIMIT = 10.0  # seconds of a call in a worker unless the config says otherwise

Scores = dict[str, float | None]
"""Score name -> value; None: the score does not apply."""


class RewardResult(NamedTuple):
    """The scores that one reward gives one rollout, and the error that made them 0.0, if any."""

    scores: Scores
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class WeightedReward:
    """A reward with the name and the weight from a task or a config.

    With `workers` its calls are made there, where it is loaded by `reference`, each with `time_limit` seconds. `on_error`:
    a call that raises, exceeds its time limit or returns no number fails the step, or counts 0.0 and is noted in the rollout's
    `errors`; an unreadable gold answer always fails the step. `strings`: a TRL function that reads completions as texts.
    """

    name: str
    weight: float
    function: Callable[..., Any]
    reference: str | None = None
    workers: Workers | None = None
    time_limit: float = TIME_LIMIT
    on_error: Literal["raise", "zero"] = "raise"
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


def score(rollout: Rollout, rewards: Sequence[WeightedReward]) -> Rollout:
    """Scores one rollout, as a group and batch of one."""
    return score_groups([[rollout]], rewards)[0][0]


@phase("reward")
def score_groups(
    groups: Sequence[Sequence[Rollout]], rewards: Sequence[WeightedReward]
) -> list[list[Rollout]]:
    """The rollouts of each group with their reward and scores, added to those of their environment.

    A reward that returns named numbers gives the scores `name/part`; its weight applies to each of them. A part that is
    None does not apply: it is kept as None and adds nothing. Raises DataError for an unreadable gold answer and
    RewardError for a reward that raised or returned no finite number; both name the sample.
    """
    rollouts = [rollout for group in groups for rollout in group]
    reads_ids = any(reward.signature.scope == "columns" for reward in rewards)
    inputs = [RewardInput(r.text, r.sample, _action_ids(r) if reads_ids else ()) for r in rollouts]
    indices = iter(range(len(rollouts)))
    group_indices = [[next(indices) for _ in group] for group in groups if group]
    results = _call_rewards(rewards, inputs, group_indices)
    scored = iter(
        [
            _add_scores(rollout, reward_input, rewards, [column[k] for column in results])
            for k, (rollout, reward_input) in enumerate(zip(rollouts, inputs, strict=True))
        ]
    )
    return [[next(scored) for _ in group] for group in groups]


def _add_scores(
    rollout: Rollout,
    reward_input: RewardInput,
    rewards: Sequence[WeightedReward],
    results: Sequence[RewardResult],
) -> Rollout:
    """The rollout with the result of each reward added."""
    total, scores, errors = rollout.reward, dict(rollout.scores), dict(rollout.errors)
    for reward, result in zip(rewards, results, strict=True):
        for name, value in result.scores.items():
            if name in scores:
                problem = f"gives the score {name!r}, which exists already; rename it"
                raise _error(reward, [reward_input], problem)
            scores[name] = value
            total += reward.weight * (value or 0.0)
        if result.error is not None:
            errors[reward.name] = result.error
    return replace(rollout, reward=total, scores=scores, errors=errors)


def _action_ids(rollout: Rollout) -> tuple[int, ...]:
    return tuple(i for s in rollout.rows for p in s.pieces if p.sampled for i in p.ids)


def _call_rewards(
    rewards: Sequence[WeightedReward],
    inputs: Sequence[RewardInput],
    groups: Sequence[Sequence[int]],
) -> list[list[RewardResult]]:
    """For each reward, its result for each input. Rewards that run in workers or on the event loop run concurrently."""
    if not inputs:
        return [[] for _ in rewards]
    calls = [split_into_calls(reward.signature, groups) for reward in rewards]
    waits = [
        start_calls(
            reward.function,
            reward.signature,
            [[inputs[k] for k in call] for call in reward_calls],
            reference=reward.reference,
            workers=reward.workers,
            seconds=reward.time_limit,
            stop=reward.on_error == "raise",
        )
        for reward, reward_calls in zip(rewards, calls, strict=True)
    ]
    with keeping_process_state():
        outcomes = [wait() for wait in waits]
    return [
        [
            result
            for call, outcome in zip(reward_calls, reward_outcomes, strict=True)
            for result in check_outcome(reward, [inputs[k] for k in call], outcome)
        ]
        for reward, reward_calls, reward_outcomes in zip(rewards, calls, outcomes, strict=True)
    ]


def check_outcome(
    reward: WeightedReward, inputs: Sequence[RewardInput], outcome: Outcome
) -> list[RewardResult]:
    """The results of one call, one for each of its inputs. Raises DataError, and RewardError where `on_error` is `raise`."""
    try:
        values = _split_outcome(reward, inputs, outcome)
    except RewardError as e:
        return [_zero_result(reward, e) for _ in inputs]
    results: list[RewardResult] = []
    for reward_input, value in zip(inputs, values, strict=True):
        try:
            results.append(RewardResult(_named_scores(reward, reward_input, value)))
        except RewardError as e:
            results.append(_zero_result(reward, e))
    return results


def _zero_result(reward: WeightedReward, error: RewardError) -> RewardResult:
    if reward.on_error == "raise":
        raise error
    return RewardResult({reward.name: 0.0}, str(error))


def _split_outcome(
    reward: WeightedReward, inputs: Sequence[RewardInput], outcome: Outcome
) -> Sequence[Any]:
    """The outcome as one value for each input."""
    if isinstance(outcome, DataError):
        raise outcome
    if isinstance(outcome, BaseException):
        raise _error(reward, inputs, _describe(outcome)) from outcome
    if reward.signature.scope == "rollout":
        return [outcome]
    if hasattr(outcome, "tolist"):
        with attributed(f"reward {reward.name}: the `tolist` of its scores", RewardError):
            outcome = outcome.tolist()
    if not isinstance(outcome, list | tuple):
        problem = f"returned a {type(outcome).__name__}, not a list with one score per completion"
        raise _error(reward, inputs, problem)
    if len(outcome) != len(inputs):
        problem = f"returned {len(outcome)} scores for {len(inputs)} completions"
        raise _error(reward, inputs, problem)
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
            raise _error(reward, [reward_input], problem) from e
    else:
        named = {reward.name: value}
    return {name: _read_score(number, reward, reward_input) for name, number in named.items()}


def _read_score(value: object, reward: WeightedReward, reward_input: RewardInput) -> float | None:
    if value is None:
        return None
    try:
        score = read_finite(value)
    except ValueError as e:
        raise _error(reward, [reward_input], f"returned {e}") from None
    if abs(score * reward.weight) > LARGEST:
        problem = (
            f"returned {score:g}, with its weight {reward.weight:g} a reward beyond ±{LARGEST:g}"
        )
        raise _error(reward, [reward_input], problem)
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


def _error(reward: WeightedReward, inputs: Sequence[RewardInput], problem: str) -> RewardError:
    names = list(dict.fromkeys(x.sample.id for x in inputs))
    where = f"sample {names[0]}" if len(names) == 1 else f"samples {names[0]} … {names[-1]}"
    return RewardError(f"{where}: reward {reward.name} {problem}")
