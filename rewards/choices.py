"""Several right choices, with credit for a part of them."""

from __future__ import annotations

from vlrft.grading import expects, read_answer
from vlrft.schema import DataError, Sample

__all__ = ["choices"]


def choices(completion: str, sample: Sample) -> float | None:
    """|A| / |G| in [0, 1] for answered letters A that are all among the gold letters G, 0.0 with a wrong one or none; None
    when the gold answer is not several choices (tag `answer`: choices).

    Letters are separated by commas and compared without case, order and repetitions. The gold answer is a list of texts or
    one text with commas; raises DataError where it has none. Source: TW-GRPO's soft reward
    (github.com/longmalongma/TW-GRPO, src/open_r1/grpo.py, `accuracy_reward`), which first asks a symbolic verifier whether
    both are equal.
    """
    if not expects(sample, "choices"):
        return None
    gold = sample.answer
    texts = [gold] if isinstance(gold, str) else gold
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        texts = ()
    right = frozenset().union(*map(_letters, texts))
    if not right:
        raise DataError(
            f"sample {sample.id}: gold answer {gold!r} has no choices; use a list of letters, or one text with commas"
        )
    said = _letters(read_answer(completion) or "")
    return len(said) / len(right) if said <= right else 0.0


def _letters(text: str) -> frozenset[str]:
    return frozenset(filter(None, (part.strip().casefold() for part in text.split(","))))
