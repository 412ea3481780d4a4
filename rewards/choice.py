"""One of several options, by its letter or its text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import ascii_uppercase

from vlrft.grading import (
    expects,
    join_accents,
    normalise_text,
    read_answer,
    read_letter,
    why_no_answer,
)
from vlrft.schema import DataError, Sample, Unreadable, explain_unreadable

from ._released_choice import cvbench, visualthinker

__all__ = ["choice", "cvbench", "visualthinker"]


def _why(completion: str, sample: Sample) -> Unreadable | None:
    """An answer is unreadable, too, where it is none of the options that the sample lists."""
    answer, options = read_answer(completion), sample.tags.get("options")
    if answer is None or options is None:
        return why_no_answer(completion)
    texts = {normalise_text(option) for option in options.splitlines()}
    letters = ascii_uppercase[: len(texts)]
    first = read_letter(answer.split()[0])
    known = normalise_text(answer) in texts or (first is not None and first in letters)
    return None if known else Unreadable(why="none of the options")


@explain_unreadable(_why)
def choice(completion: str, sample: Sample) -> float | None:
    """1.0 for the right option, 0.0 for another or none; None when the gold answer is not a choice.

    The gold answer is an option's text (`7`, `persian cat`), or a letter when the tag `options` lists the options,
    one a line, from A on; then the letter, the option's text and both (`(A) left`) are right. Equality, never
    containment, by Unicode's caseless matching (`STRASSE` is `Straße`, `ﬁle` is `file`); where that would take two of
    the options for one another (`mW`, `MW`), in the option's own case. Raises DataError for a gold answer that is not
    text, is empty, or is none of the options.
    """
    if not expects(sample, "choice"):
        return None
    options = sample.tags.get("options")
    normalise = _normaliser((options or "").splitlines())
    right = _accepted_texts(sample, options, normalise)
    answer = read_answer(completion)
    if answer is None:
        return 0.0
    letter = read_letter(answer)
    return float(normalise(answer) in right or (letter is not None and normalise(letter) in right))


def _normaliser(options: Sequence[str]) -> Callable[[str], str]:
    """The form in which texts are compared: without case, unless options differ by that alone."""
    one_space = {_one_space(option) for option in options}
    caseless = {normalise_text(option) for option in options}
    return normalise_text if len(caseless) == len(one_space) else _one_space


def _one_space(text: str) -> str:
    return join_accents(" ".join(text.split()))


def _accepted_texts(
    sample: Sample, options: str | None, normalise: Callable[[str], str]
) -> frozenset[str]:
    """Every normalised text that is a right answer."""
    gold = sample.answer
    if not isinstance(gold, str) or not normalise(gold):
        raise DataError(
            f"sample {sample.id}: gold answer {gold!r} is not an option; use a text such as '7' or 'A'"
        )
    if options is None:
        return frozenset({normalise(gold)})
    texts = [normalise(text) for text in options.splitlines()]
    letters = ascii_uppercase[: len(texts)]
    if len(gold) == 1 and gold in letters:
        index = letters.index(gold)
        letter, text = normalise(gold), texts[index]
        both = {f"{letter}{mark} {text}" for mark in ").:"} | {f"({letter}) {text}"}
        alone = set[str]() if text.upper() in set(letters) else {text}
        return frozenset({letter} | alone | both)
    if normalise(gold) in texts:
        return frozenset({normalise(gold)})
    raise DataError(
        f"sample {sample.id}: gold answer {gold!r} is none of the options {options.splitlines()}"
    )
