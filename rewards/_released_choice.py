"""VisualThinker-R1-Zero's released grading of an option, as `choice.<name>`.

An independent implementation. math-verify runs in a worker with a limit on time and memory.
"""

from __future__ import annotations

import re
from string import ascii_uppercase

from vlrft.grading import expects
from vlrft.schema import DataError, Sample

from ._math_verify import in_worker, library, parse, verify
from ._visual_rft import find_tagged, math_agrees

_LONE_LETTER = re.compile(r"(?:^|\s|\[|\()([A-H])(?:\s|\]|\)|$)")
_LETTERS = "ABCDEF"


def visualthinker(completion: str, sample: Sample) -> float | None:
    """VisualThinker's training reward: 1.0 when math-verify takes the whole completion for the gold answer in its tag,
    when the text of the first answer tag is the gold text, or when the last separate letter A to H in it is the gold
    answer; else 0.0. None when the gold answer is not a choice.

    Defects: case matters (`Yes` is not `yes`), and so does a full stop; math-verify reads no number directly after
    a tag, so that `<answer>3</answer>` is no gold answer to it; without a tag the whole completion is the answer; of
    letters with one space between them every second is skipped. Raises DataError for a gold answer that is not text.
    """
    if not expects(sample, "choice"):
        return None
    gold, _ = _gold(sample)
    tag = find_tagged(completion, lines=False)
    answer = (completion if tag is None else tag).strip()
    letters = _LONE_LETTER.findall(answer)
    if answer == gold.strip() or (letters and letters[-1] == gold.strip()):
        return 1.0
    return float(math_agrees(completion, f"<answer>{gold}</answer>"))


def cvbench(completion: str, sample: Sample) -> float | None:
    """VisualThinker's CV-Bench grader: 1.0 when math-verify finds the right letter or the right option's text in the
    first answer tag, or where that is missing or empty in the whole output; else 0.0. None when the gold answer is not a choice.

    Defects: an option's text counts only in the option's own case (`Above` is wrong where the option is `above`); the
    article of `the bookcase (highlighted by a red box)` is read as letter a, so that prose is biased to the first
    option. Raises DataError for a gold answer that is not an option.
    """
    if not expects(sample, "choice"):
        return None
    gold, options = _gold(sample)
    letter = gold if len(gold) == 1 and gold in ascii_uppercase[: len(options)] else ""
    if not letter and gold in options:
        letter = ascii_uppercase[options.index(gold)]
    text = options[ascii_uppercase.index(letter)] if letter else gold
    answer = tagged_line(completion) or completion
    return in_worker(_cvbench, answer, letter, text, tuple(options)) or 0.0


def tagged_line(text: str) -> str | None:
    """The first match of `<answer>\\s*(.*?)\\s*</answer>`, which is one line but for white space around it; in linear
    time."""
    start = 0
    while (end := text.find("</answer>", start)) >= 0:
        inside = text[start:end].rstrip()
        line = inside.rfind("\n")
        early = inside.rfind("<answer>", 0, line + 1)
        if early >= 0 and not inside[early + len("<answer>") : line + 1].strip():
            return inside[early + len("<answer>") :].strip()
        opening = inside.find("<answer>", line + 1)
        if opening >= 0:
            return inside[opening + len("<answer>") :].strip()
        start = end + len("</answer>")
    return None


def _cvbench(answer: str, letter: str, text: str, options: tuple[str, ...]) -> float:
    module = library()
    letters = [form for c in _LETTERS for form in (c, c.lower(), f"({c})", f"({c.lower()})")]
    styles = [
        module.LatexExtractionConfig(),
        module.ExprExtractionConfig(),
        module.StringExtractionConfig(strings=(*letters, *options)),
    ]
    parsed = parse(answer, extraction_config=styles)
    right = [text.lower(), text]
    if letter:
        right += [letter, letter.lower(), f"({letter.lower()})", f"({letter})"]
    return float(verify(right, parsed))


def _gold(sample: Sample) -> tuple[str, list[str]]:
    gold = sample.answer
    if not isinstance(gold, str) or not gold.strip():
        raise DataError(f"sample {sample.id}: gold answer {gold!r} is not an option")
    return gold, sample.tags.get("options", "").splitlines()
