"""Agreement within a group: no gold answer is read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from vlrft.grading import normalise_text, read_answer
from vlrft.schema import Sample, no_grader

__all__ = ["majority"]

ENTROPY_WEIGHT = 0.75


@no_grader
def majority(completions: Sequence[str], sample: Sample) -> list[float]:
    """The share n(a_i)/N of a group's N completions that give the same answer, minus 0.75 · H / ln(k) for k > 1 different
    answers, where H is the entropy of their frequencies. A completion without an answer has a share of 0 and gives none.

    Answers are the texts of the answer tag, compared without case. The entropy is the same for all completions of a group,
    those without an answer too: an estimator that subtracts the group's mean removes it. Source: TTRV
    (github.com/Akshit21112002/TTRV, `ttt_metrics.py`); without the entropy it is TTRL's reward (arXiv 2504.16084) with
    shares in place of votes.
    """
    answers = [read_answer(completion) for completion in completions]
    said = [None if answer is None else normalise_text(answer) for answer in answers]
    counts = Counter(text for text in said if text is not None)
    penalty = ENTROPY_WEIGHT * _spread(list(counts.values()))
    return [(0 if text is None else counts[text]) / len(said) - penalty for text in said]


def _spread(counts: Sequence[int]) -> float:
    """The entropy of the frequencies over its largest value, in [0, 1]; 0 for one answer."""
    if len(counts) < 2:
        return 0.0
    total = sum(counts)
    entropy = -sum(c / total * math.log(c / total) for c in counts)
    return entropy / math.log(len(counts))
