"""The length of a completion in characters, whatever its content: a reward gets its text, not its tokens.

Use these only together with a reward for a right answer: alone, each teaches the policy to say nothing. The tag
`length_budget` of a sample, a whole number of characters, replaces the lengths given here.
"""

from __future__ import annotations

import math
import re

from vlrft.schema import DataError, Sample, best_score, no_grader

from ._released_math import open_rs_length

__all__ = ["cosine", "curriculum", "length", "open_rs_cosine"]

BUDGET = 4000  # characters, about a thousand tokens of English
RELEASED = 1000  # characters, open-rs' `cosine_max_len`
START, LEAST = 1024, 4  # characters of a curriculum's first and shortest budget, 256 tokens and 1
FACTOR, DECAYS = 0.7, 4

_BUDGET = re.compile(r"[1-9][0-9]{0,8}")


@no_grader
@best_score(0.0)
def length(completion: str, sample: Sample) -> float:
    """A soft over-long penalty: 0.0 up to the budget (tag `length_budget`, 4000 characters by default), then falling
    linearly to -1.0 over a quarter of the budget; -1.0 beyond.

    Applies to every sample. Raises DataError for a budget that is not a whole number of at least 1. Source: DAPO (Yu et
    al. 2025, arXiv 2503.14476), equation 13, there in tokens.
    """
    budget = _budget(sample, BUDGET)
    return max(-1.0, min(0.0, (budget - len(completion)) / (budget / 4)))


@no_grader
@best_score(0.0)
def cosine(completion: str, sample: Sample) -> float:
    """A penalty in [-1, 0] from the first character on: (cos(π · characters / budget) - 1) / 2, and -1.0 from the
    budget on, so that it never rises again.

    By length alone: unlike its source it does not depend on whether the answer is right, which makes it fit any task.
    Applies to every sample; raises as `length`. Source: the shape of Yeo et al. 2025 (arXiv 2502.03373).
    """
    share = min(len(completion) / _budget(sample, BUDGET), 1.0)
    return (math.cos(math.pi * share) - 1) / 2


def open_rs_cosine(completion: str, sample: Sample) -> float | None:
    """The length reward of open-rs: from 1.0 down to 0.5 for a right answer and from 0.0 down to -0.5 for a wrong
    one, as the cosine falls from 0 to 1000 characters (tag `length_budget`; experiment 3 has 3584); None when the
    gold answer is not mathematics.

    An answer is right by `math_answer.open_r1`, except that a unit in `$\\boxed{…}$` makes it wrong. Defects: characters, where tokens were meant; beyond that length the
    cosine rises again, so that 2000 characters earn as much as none and 3000 as much as 1000; a long wrong answer loses
    more than a short one, and the shortest costs nothing; where the solution has no readable LaTeX, every completion
    earns 1.0. Raises as `length` and `open_r1`.
    """
    budget = _budget(sample, RELEASED)
    right = open_rs_length(completion, sample)
    if right is None:
        return None
    if right and open_rs_length(
        "", sample
    ):  # even an empty answer is right: the solution cannot be read
        return 1.0
    least = 0.5 if right else -0.5
    return least + 0.25 * (1 + math.cos(math.pi * len(completion) / budget))


def shrunk(start: float, progress: float) -> float:
    """The budget that is left of the first one, when this share of a stage is done; at its end the last one of training."""
    times = min(int(DECAYS * progress), DECAYS - 1)
    return max(LEAST, start * FACTOR**times)


@no_grader
def curriculum(completion: str, sample: Sample, progress: float = 1.0) -> float:
    """n / B for n characters up to the budget B, then falling as fast, 0.0 from 2 B on. B = B₀ · 0.7^⌊4 p⌋ shrinks with the share p of the
    stage that is done; B₀: 1024 characters, or the tag `length_budget`.

    Applies to every sample; raises as `length`. Train Long, Think Short (Hammoud et al. 2025, arXiv 2508.08940), there in tokens;
    its code was not to be had: 256 tokens and B = max(1, B₀ γ^⌊t / T⌋) are from a review, γ = 0.7 from the caption of figure 1, the
    triangle from a summary; that a stage has four intervals T, and four characters a token, are ours.
    """
    budget = shrunk(_budget(sample, START), progress)
    return max(0.0, 1.0 - abs(len(completion) - budget) / budget)


def _budget(sample: Sample, default: int) -> int:
    budget = sample.tags.get("length_budget", str(default))
    if not isinstance(budget, str) or not _BUDGET.fullmatch(budget):
        raise DataError(
            f"sample {sample.id}: tag length_budget {budget!r} is not a number of characters; "
            f"use a whole number from 1 to 999999999"
        )
    return int(budget)
