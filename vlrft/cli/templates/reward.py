"""One point for the gold answer in the answer tag, half a point where only its case differs.

Check it, then train with it:

    vlrft check reward ./my_reward.py --task digits
    vlrft train quickstart task.rewards../my_reward.py=0.1
"""

from __future__ import annotations

from vlrft.grading import read_answer
from vlrft.schema import DataError, Sample


def my_reward(completion: str, sample: Sample) -> float | None:
    """0.0, 0.5 or 1.0; None (not applicable) if the gold answer is not a text.

    0.0 for a wrong answer, no answer, two answers, or one without the tag. Raises DataError for an empty gold answer: a
    broken gold answer must stop the run instead of being rewarded.

    >>> sample = Sample(id="colours/1", messages=(), answer="Prussian blue")
    >>> my_reward("<think>It is dark.</think><answer>Prussian blue</answer>", sample)
    1.0
    >>> my_reward("<answer>prussian blue</answer>", sample)
    0.5
    >>> my_reward("blue, Prussian blue, green", sample)
    0.0
    """
    gold = sample.answer
    if not isinstance(gold, str):
        return None
    if not gold:
        raise DataError(f"sample {sample.id}: the gold answer is empty")
    answer = read_answer(completion) or ""
    if answer == gold:
        return 1.0
    return 0.5 if answer.casefold() == gold.casefold() else 0.0
