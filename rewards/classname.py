"""The name of a class, of a closed set that the prompt does not list."""

from __future__ import annotations

from vlrft.grading import class_key, expects, read_answer
from vlrft.schema import DataError, Sample

from ._visual_rft import find_tagged, math_agrees, squeeze

__all__ = ["classname", "visual_rft", "visual_rft_eval"]


def classname(completion: str, sample: Sample) -> float | None:
    """1.0 for the gold class, 0.0 for another name or none; None when the gold answer is not a class.

    Names are compared without case, spaces, underscores and the hyphens between two letters or digits, so that `A-` is
    not `A`; nothing is searched for, so neither a part of a name nor a list of names earns anything. Raises DataError
    for a gold answer without a letter or a digit.
    """
    if not expects(sample, "choice"):
        return None
    gold = class_key(_gold(sample))
    answer = read_answer(completion)
    return float(answer is not None and class_key(answer) == gold)


def visual_rft(completion: str, sample: Sample) -> float | None:
    """Visual-RFT's training reward: 1.0 when math-verify takes the completion for the gold answer, or when one of the
    two names contains the other, without spaces and underscores; else 0.0.

    Defects: an empty answer is contained in every name; so is `2012` in most names of cars; `rose` is a pink primrose.
    Without a tag the whole completion is the answer, so that a completion which names every class is right. Raises as
    `classname`.
    """
    if not expects(sample, "choice"):
        return None
    gold = _gold(sample)
    tag = find_tagged(completion, lines=False)
    answer = completion.strip() if tag is None else tag.strip()
    if _either_contains(answer, gold):
        return 1.0
    return float(math_agrees(completion, f"<answer> {gold} </answer>"))


def visual_rft_eval(completion: str, sample: Sample) -> float | None:
    """Visual-RFT's evaluation: 1.0 when the text of the first answer tag contains the gold name or is contained in it,
    without spaces and underscores; 0.0 for another text or no tag.

    Defects: those of containment. An empty answer scores 100 % on each of the four data sets, `2012` 59.1 % and `201`
    68.0 % on cars196, `200` 13.1 % on the aircraft. Raises as `classname`.
    """
    if not expects(sample, "choice"):
        return None
    tag = find_tagged(completion, lines=False)
    return float(tag is not None and _either_contains(tag, _gold(sample)))


def _either_contains(answer: str, gold: str) -> bool:
    a, b = squeeze(answer), squeeze(gold)
    return a in b or b in a


def _gold(sample: Sample) -> str:
    gold = sample.answer
    if not isinstance(gold, str) or not any(map(str.isalnum, gold)):
        raise DataError(f"sample {sample.id}: gold answer {gold!r} is not the name of a class")
    return gold
