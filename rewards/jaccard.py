"""A set of labels, by the share that it has in common with the gold set."""

from __future__ import annotations

from typing import Any

from vlrft.grading import expects, normalise_text, read_answer
from vlrft.schema import DataError, Sample

__all__ = ["jaccard"]


def jaccard(completion: str, sample: Sample) -> float | None:
    """|A ∩ B| / |A ∪ B| in [0, 1] of the answer's labels A and the gold labels B; None when the gold answer is not a set of
    labels (tag `answer`: labels).

    Labels are separated by semicolons and compared without case; their order and repetitions do not count. The gold answer
    is a list of texts or one text with semicolons. Raises DataError where it has no label. Source: MedTVT-R1
    (github.com/keke-nice/MedTVT-R1, `grpo_train.py`, commit 4d9875b), which compares with case and searches the first tag.
    """
    if not expects(sample, "labels"):
        return None
    gold = _gold(sample)
    labels = _labels(read_answer(completion) or "")
    return len(labels & gold) / len(labels | gold)


def _labels(text: str) -> frozenset[str]:
    return frozenset(filter(None, map(normalise_text, text.split(";"))))


def _gold(sample: Sample) -> frozenset[str]:
    gold: Any = sample.answer
    texts = [gold] if isinstance(gold, str) else gold
    if isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts):
        labels = frozenset().union(*map(_labels, texts))
        if labels:
            return labels
    raise DataError(
        f"sample {sample.id}: gold answer {gold!r} is not a set of labels; use a list of texts, or one with semicolons"
    )
