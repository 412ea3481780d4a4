"""A rollout's reward: the weighted sum of the named rewards that apply to it, each kept apart in
`scores`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real

from vlrft.schema import DataError, Reward, RewardError, Rollout

MAX_MESSAGE = 200  # characters of a foreign error that our one line quotes


@dataclass(frozen=True, kw_only=True)
class NamedReward:
    """A reward with the name and the weight that a task or a config gives it."""

    name: str
    weight: float
    function: Reward


def score(rollout: Rollout, rewards: Sequence[NamedReward]) -> Rollout:
    """The rollout with its reward and scores, on top of what its environment gave.

    A reward that returns named numbers gives the scores `name/part`; its weight counts for each of
    them. Parts that are None do not apply: they are kept as None and add nothing. Raises DataError
    for an unreadable gold answer and RewardError for a reward that raised or returned no finite
    number; both name the sample.
    """
    total = rollout.reward
    scores = dict(rollout.scores)
    for reward in rewards:
        for name, value in _parts(reward, rollout).items():
            if name in scores:
                raise _error(
                    reward,
                    rollout,
                    f"gives the score {name!r}, which exists already; rename it",
                )
            scores[name] = value
            total += reward.weight * (value or 0.0)
    return replace(rollout, reward=total, scores=scores)


def _parts(reward: NamedReward, rollout: Rollout) -> dict[str, float | None]:
    """The reward's scores by their full names, checked."""
    try:
        given = reward.function(rollout.text, rollout.sample)
    except DataError:
        raise
    except Exception as e:
        first = (str(e).splitlines() or ["no message"])[0][:MAX_MESSAGE]
        raise _error(reward, rollout, f"raised {type(e).__name__}: {first}") from e
    if isinstance(given, Mapping):
        named = {f"{reward.name}/{part}": value for part, value in given.items()}
    else:
        named = {reward.name: given}
    return {name: _finite(value, reward, rollout) for name, value in named.items()}


def _finite(value: object, reward: NamedReward, rollout: Rollout) -> float | None:
    if value is None:
        return None
    if not isinstance(value, Real):
        raise _error(reward, rollout, f"returned a {type(value).__name__}, not a number or None")
    number = float(value)
    if not math.isfinite(number):
        raise _error(reward, rollout, f"returned {number}, not a finite number")
    return number


def _error(reward: NamedReward, rollout: Rollout, what: str) -> RewardError:
    return RewardError(f"sample {rollout.sample.id}: reward {reward.name} {what}")
