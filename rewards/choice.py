"""One of several options, by its letter or its text."""

from __future__ import annotations

from string import ascii_uppercase

from vlrft.grading import expects, normalise_text, read_answer, read_letter
from vlrft.schema import DataError, Sample

from ._released_choice import cvbench, visualthinker

__all__ = ["choice", "cvbench", "visualthinker"]


def choice(completion: str, sample: Sample) -> float | None:
    """1.0 for the right option, 0.0 for another or none; None when the gold answer is not a choice.

    The gold answer is an option's text (`7`, `persian cat`), or a letter when the tag `options` lists the options,
    one a line, from A on; then the letter, the option's text and both (`(A) left`) are right. Equality, never
    containment. Raises DataError for a gold answer that is not text, is empty, or is none of the options.
    """
    if not expects(sample, "choice"):
        return None
    right = _accepted(sample)
    answer = read_answer(completion)
    if answer is None:
        return 0.0
    letter = read_letter(answer)
    return float(
        normalise_text(answer) in right or (letter is not None and normalise_text(letter) in right)
    )


def _accepted(sample: Sample) -> frozenset[str]:
    """Every normalised text that is a right answer."""
    gold = sample.answer
    if not isinstance(gold, str) or not normalise_text(gold):
        raise DataError(
            f"sample {sample.id}: gold answer {gold!r} is not an option; use a text such as '7' or 'A'"
        )
    options = sample.tags.get("options")
    if options is None:
        return frozenset({normalise_text(gold)})
    texts = [normalise_text(text) for text in options.splitlines()]
    letters = ascii_uppercase[: len(texts)]
    if len(gold) == 1 and gold in letters:
        index = letters.index(gold)
        letter, text = normalise_text(gold), texts[index]
        both = {f"{letter}{mark} {text}" for mark in ").:"} | {f"({letter}) {text}"}
        alone = {text} if text not in map(normalise_text, letters) else set[str]()
        return frozenset({letter} | alone | both)
    if normalise_text(gold) in texts:
        return frozenset({normalise_text(gold)})
    raise DataError(
        f"sample {sample.id}: gold answer {gold!r} is none of the options {options.splitlines()}"
    )
