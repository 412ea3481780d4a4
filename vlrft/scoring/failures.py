"""Calls of a reward that failed: made again after a pause, and without an effect where they do not apply."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from vlrft.schema import DataError
from vlrft.scoring.calls import Outcome

FIRST_PAUSE = (
    0.5  # seconds before the first call that is made again; each further pause is twice as long
)
LONGEST_PAUSE = 30.0

Call = Callable[[Sequence[int]], list[Outcome]]  # makes the calls of these positions


def retry_calls(outcomes: list[Outcome], again: Call, retries: int) -> list[int]:
    """Makes the calls that failed again, up to `retries` times, and replaces their outcomes in place. Returns how often each
    call was made again. An unreadable gold answer (`DataError`) is no failure of the reward."""
    counts = [0] * len(outcomes)
    for attempt in range(retries):
        failed = [k for k, outcome in enumerate(outcomes) if _may_pass(outcome)]
        if not failed:
            break
        time.sleep(min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE))
        for k, outcome in zip(failed, again(failed), strict=True):
            outcomes[k] = outcome
            counts[k] += 1
    return counts


def _may_pass(outcome: Outcome) -> bool:
    return isinstance(outcome, Exception) and not isinstance(outcome, DataError)


def mean_scores(scores: Sequence[Mapping[str, float | None]]) -> dict[str, float]:
    """The mean of each score of a group's calls, which a call that failed counts so that it moves no advantage. A score that
    does not apply counts 0.0, as in the reward.

    >>> mean_scores([{"judge": 1.0}, {"judge": 0.0}, {"judge": None}, {"judge": 1.0}])
    {'judge': 0.5}
    """
    names = dict.fromkeys(name for one in scores for name in one)
    return {name: sum(one.get(name) or 0.0 for one in scores) / len(scores) for name in names}
