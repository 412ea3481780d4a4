"""How released code grades a mathematical answer, defects included: what `math_answer.<name>` names.

Our own writing of what each does; they run in a worker with a limit on time and memory, where the
originals use SIGALRM (main thread only) or nothing. A comparison that breaks the limit scores 0.0.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable

from vlrft.grading import expects, gold_texts, sandboxed_worker
from vlrft.schema import Sample

from ._math_verify import NEEDS, SECONDS, library, parse, verify
from ._prm800k import same_answer

_ANSWER = re.compile(r"<answer>(.*?)</answer>")  # without DOTALL, as released
_TAG_SPACE = re.compile(r"\s*(<|>|/)\s*")


def r1v(completion: str, sample: Sample) -> float | None:
    """R1-V's training reward: math-verify on the whole completion, else the equal text of the first
    `<answer>`.

    Defects: a number directly before `<` is not seen, so that the last number of the thinking often
    decides; an answer that spans lines has no tag; an unreadable gold answer can only be met as
    text.
    """
    return _bounded(_r1v, completion, sample)


def r1v_eval(completion: str, sample: Sample) -> float | None:
    """R1-V's GeoQA evaluation: math-verify on the whole output and the bare gold answer.

    Defects: as `r1v`, and the tag is never looked at; `√{3}` cannot be read and `8√{3}` is read as
    8, which makes 77 of the 754 gold answers unreachable or wrong.
    """
    return _bounded(_r1v_eval, completion, sample)


def mathruler(completion: str, sample: Sample) -> float | None:
    """EasyR1's accuracy: the last `\\boxed{…}` by mathruler, after the spaces around `<`, `>` and `/`
    went.

    Defects: units, percent signs and degrees are dropped on both sides, so that any other unit
    passes; `\\frac{a+1}{b}` is read as a + 1/b; an unreduced fraction is wrong; thinking is not cut
    off. The original evaluates the model's text as Python; this does not.
    """
    return _bounded(_mathruler, completion, sample)


def dr_grpo(completion: str, sample: Sample) -> float | None:
    """Dr.GRPO's reward (oat, `fast`): the last `\\boxed{…}` or `\\fbox{…}`, required; compared as
    `mathruler` does.

    Defects: those of `mathruler`'s comparison.
    """
    return _bounded(_dr_grpo, completion, sample)


def open_r1(completion: str, sample: Sample) -> float | None:
    """open-r1's and open-rs' accuracy: math-verify on LaTeX, a box first.

    Reads the data set's solution, `info["solution"]`, as released; where there is none, the gold
    answer between dollar signs. Defects: a solution without LaTeX that math-verify reads, such as a
    bare `7`, gives 1.0 to every completion; an answer outside of LaTeX marks is not seen.
    """
    return _bounded(_open_r1, completion, sample, _solutions)


def lighteval(completion: str, sample: Sample) -> float | None:
    """lighteval's `expr_latex` match: LaTeX (a box first) or a plain number, rounded to 5 digits.

    Through math-verify, which grew out of that extractor. Defects: searches the prose; an
    unreadable gold answer can never be met.
    """
    return _bounded(_lighteval, completion, sample)


def _bounded(
    grade: Callable[[str, tuple[str, ...]], float],
    completion: str,
    sample: Sample,
    golds: Callable[[Sample], tuple[str, ...]] = gold_texts,
) -> float | None:
    """The grade from the worker; None for a sample of another kind. Raises DataError for a gold
    answer that is no text or number."""
    if not expects(sample, "math"):
        return None
    return sandboxed_worker().call(grade, (completion, golds(sample)), SECONDS, NEEDS) or 0.0


def _r1v(completion: str, golds: tuple[str, ...]) -> float:
    found = _ANSWER.search(completion)
    said = found[1].strip() if found else completion.strip()
    return float(
        any(
            verify(parse(completion), parse(f"<answer> {gold} </answer>")) or said == gold.strip()
            for gold in golds
        )
    )


def _r1v_eval(completion: str, golds: tuple[str, ...]) -> float:
    parsed = parse(completion)
    return float(any(verify(parsed, parse(gold)) for gold in golds))


def _mathruler(completion: str, golds: tuple[str, ...]) -> float:
    boxed = _last_box(_TAG_SPACE.sub(r"\1", completion), ("\\boxed{",))
    given = "None" if boxed is None else boxed.strip()
    return float(any(same_answer(given, gold) for gold in golds))


def _dr_grpo(completion: str, golds: tuple[str, ...]) -> float:
    boxed = _last_box(completion, ("\\boxed{", "\\fbox{"))
    return float(boxed is not None and any(same_answer(boxed, gold) for gold in golds))


def _open_r1(completion: str, golds: tuple[str, ...]) -> float:
    found = library()
    style = found.LatexExtractionConfig(
        normalization_config=importlib.import_module("latex2sympy2_extended").NormalizationConfig(
            basic_latex=True,
            units=True,
            malformed_operators=False,
            nits=False,
            boxed="all",
        ),
        boxed_match_priority=0,
        try_extract_without_anchor=False,
    )
    said = parse(completion, extraction_config=[style], extraction_mode="first_match")
    plain = [found.LatexExtractionConfig()]
    for gold in golds:
        known = parse(gold, extraction_config=plain, extraction_mode="first_match")
        if not known or verify(said, known):
            return 1.0
    return 0.0


def _lighteval(completion: str, golds: tuple[str, ...]) -> float:
    found = library()
    plain = found.ExprExtractionConfig()
    said = parse(
        completion,
        extraction_config=[plain, found.LatexExtractionConfig(boxed_match_priority=0)],
    )
    known = [found.LatexExtractionConfig(), plain]
    return float(
        any(
            verify(parse(_latex(gold), extraction_config=known), said, float_rounding=5)
            for gold in golds
        )
    )


def _solutions(sample: Sample) -> tuple[str, ...]:
    solution = sample.info.get("solution")
    return (solution,) if isinstance(solution, str) else tuple(map(_latex, gold_texts(sample)))


def _latex(gold: str) -> str:
    return gold if "$" in gold or "\\boxed" in gold else f"${gold}$"


def _last_box(text: str, openings: tuple[str, ...]) -> str | None:
    """What the last box of the whole text holds, closed or not being told apart by braces alone."""
    start, opening = max((text.rfind(opening), opening) for opening in openings)
    if start < 0:
        return None
    depth = 1
    for place in range(start + len(opening), len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return text[start + len(opening) : place]
    return None
