"""Calls of a reward that failed: made again after a pause, and without an effect where they do not apply."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

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


def neutral_values(values: Sequence[float | None]) -> list[float]:
    """The score that each rollout of a group adds to its reward. Where the call failed (None) it is the mean of the others,
    which moves no advantage; 0.0 where all failed.

    >>> neutral_values([1.0, None, 0.0])
    [1.0, 0.5, 0.0]
    """
    known = [value for value in values if value is not None]
    mean = sum(known) / len(known) if known else 0.0
    return [mean if value is None else value for value in values]
