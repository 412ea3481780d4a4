"""A rollout's reward: the weighted sum of the named rewards that apply to it, each kept apart in
`scores`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, Literal

from vlrft.plugins.reward_signature import RewardSignature, signature_of
from vlrft.schema import DataError, RewardError, Rollout
from vlrft.schema.errors import WorkerTimeout
from vlrft.scoring.calls import Answer, Outcome, calls_of, start
from vlrft.tracing.phases import phase
from vlrft.workers.worker import Workers

MAX_MESSAGE = 200  # characters of a foreign error that our one line quotes
TIME_LIMIT = 10.0  # seconds of a call in a worker unless the config says otherwise


Parts = dict[str, float | None]
Given = tuple[Parts, str | None]
"""The scores of one rollout by their full names, and the error that they stand for."""


@dataclass(frozen=True, kw_only=True)
class WeightedReward:
    """A reward with the name and the weight that a task or a config gives it.

    With `workers` its calls are made there: found again by `reference`, each with `time_limit` seconds. `on_error`: a
    call that raises, runs over its time or gives no number fails the step, or counts 0.0 and stands in the rollout's
    `errors`; an unreadable gold answer always fails it. `strings`: a TRL function that reads completions as texts.
    """

    name: str
    weight: float
    function: Callable[..., Any]
    reference: str | None = None
    workers: Workers | None = None
    time_limit: float = TIME_LIMIT
    on_error: Literal["raise", "zero"] = "raise"
    strings: bool | None = None

    @cached_property
    def form(self) -> RewardSignature:
        """Raises PluginError for a function that is no reward."""
        form = signature_of(self.function)
        return form if self.strings is None else replace(form, strings=self.strings)


def score(rollout: Rollout, rewards: Sequence[WeightedReward]) -> Rollout:
    """One rollout alone, which is then its own group and batch."""
    return score_groups([[rollout]], rewards)[0][0]


@phase("reward")
def score_groups(
    groups: Sequence[Sequence[Rollout]], rewards: Sequence[WeightedReward]
) -> list[list[Rollout]]:
    """The rollouts of each group with their reward and scores, on top of what their environment gave.

    A reward that returns named numbers gives the scores `name/part`; its weight counts for each of
    them. Parts that are None do not apply: they are kept as None and add nothing. Raises DataError
    for an unreadable gold answer and RewardError for a reward that raised or returned no finite
    number; both name the sample.
    """
    flat = [rollout for own in groups for rollout in own]
    reads_ids = any(reward.form.scope == "columns" for reward in rewards)
    answers = [Answer(r.text, r.sample, _action_ids(r) if reads_ids else ()) for r in flat]
    places = iter(range(len(flat)))
    numbers = [[next(places) for _ in own] for own in groups if own]
    columns = _all(rewards, answers, numbers)
    scored = iter(
        [
            _with_scores(rollout, answer, rewards, [column[k] for column in columns])
            for k, (rollout, answer) in enumerate(zip(flat, answers, strict=True))
        ]
    )
    return [[next(scored) for _ in own] for own in groups]


def _with_scores(
    rollout: Rollout, answer: Answer, rewards: Sequence[WeightedReward], given: Sequence[Given]
) -> Rollout:
    """The rollout with what each reward gave it."""
    total, scores, errors = rollout.reward, dict(rollout.scores), dict(rollout.errors)
    for reward, (parts, error) in zip(rewards, given, strict=True):
        for name, value in parts.items():
            if name in scores:
                what = f"gives the score {name!r}, which exists already; rename it"
                raise _error(reward, [answer], what)
            scores[name] = value
            total += reward.weight * (value or 0.0)
        if error is not None:
            errors[reward.name] = error
    return replace(rollout, reward=total, scores=scores, errors=errors)


def _action_ids(rollout: Rollout) -> tuple[int, ...]:
    return tuple(i for s in rollout.rows for p in s.pieces if p.sampled for i in p.ids)


def _all(
    rewards: Sequence[WeightedReward], answers: Sequence[Answer], groups: Sequence[Sequence[int]]
) -> list[list[Given]]:
    """What each reward gives each answer. Those that run elsewhere run at the same time."""
    if not answers:
        return [[] for _ in rewards]
    calls = [calls_of(reward.form, groups) for reward in rewards]
    started = [
        start(
            reward.function,
            reward.form,
            [[answers[k] for k in call] for call in own],
            reference=reward.reference,
            workers=reward.workers,
            seconds=reward.time_limit,
            stop=reward.on_error == "raise",
        )
        for reward, own in zip(rewards, calls, strict=True)
    ]
    found = [join() for join in started]
    return [
        [
            given
            for call, outcome in zip(own, outcomes, strict=True)
            for given in checked(reward, [answers[k] for k in call], outcome)
        ]
        for reward, own, outcomes in zip(rewards, calls, found, strict=True)
    ]


def checked(reward: WeightedReward, answers: Sequence[Answer], outcome: Outcome) -> list[Given]:
    """What one call gave each of its answers. Raises DataError and, unless errors count zero, RewardError."""
    try:
        values = _values(reward, answers, outcome)
    except RewardError as e:
        return [_zero(reward, e) for _ in answers]
    given: list[Given] = []
    for answer, value in zip(answers, values, strict=True):
        try:
            given.append((_parts(reward, answer, value), None))
        except RewardError as e:
            given.append(_zero(reward, e))
    return given


def _zero(reward: WeightedReward, error: RewardError) -> Given:
    if reward.on_error == "raise":
        raise error
    return {reward.name: 0.0}, str(error)


def _values(reward: WeightedReward, answers: Sequence[Answer], outcome: Outcome) -> Sequence[Any]:
    """The outcome as one value an answer."""
    if isinstance(outcome, DataError):
        raise outcome
    if isinstance(outcome, Exception):
        raise _error(reward, answers, _told(outcome)) from outcome
    if reward.form.scope == "rollout":
        return [outcome]
    if hasattr(outcome, "tolist"):
        outcome = outcome.tolist()
    if not isinstance(outcome, list | tuple):
        what = f"returned a {type(outcome).__name__}, not a list with a score a completion"
        raise _error(reward, answers, what)
    if len(outcome) != len(answers):
        what = f"returned {len(outcome)} scores for {len(answers)} completions"
        raise _error(reward, answers, what)
    return outcome


def _parts(reward: WeightedReward, answer: Answer, given: object) -> Parts:
    """The scores of one answer by their full names, checked."""
    if type(given) is float and math.isfinite(given):  # what most rewards return
        return {reward.name: given}
    if isinstance(given, Mapping):
        named = {f"{reward.name}/{part}": value for part, value in given.items()}
    else:
        named = {reward.name: given}
    return {name: _finite(value, reward, answer) for name, value in named.items()}


def _finite(value: object, reward: WeightedReward, answer: Answer) -> float | None:
    if value is None:
        return None
    if not isinstance(value, Real):
        what = f"returned a {type(value).__name__}, not a number or None"
        raise _error(reward, [answer], what)
    number = float(value)
    if not math.isfinite(number):
        raise _error(reward, [answer], f"returned {number}, not a finite number")
    return number


def _told(error: Exception) -> str:
    """A foreign error in a few words."""
    first = (str(error).splitlines() or ["no message"])[0][:MAX_MESSAGE]
    if isinstance(error, WorkerTimeout):
        return f"{first}; raise its time_limit or make it faster"
    return first if isinstance(error, RewardError) else f"raised {type(error).__name__}: {first}"


def _error(reward: WeightedReward, answers: Sequence[Answer], what: str) -> RewardError:
    names = list(dict.fromkeys(a.sample.id for a in answers))
    where = f"sample {names[0]}" if len(names) == 1 else f"samples {names[0]} … {names[-1]}"
    return RewardError(f"{where}: reward {reward.name} {what}")
