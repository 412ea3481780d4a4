"""Released graders of a mathematical answer, defects included, as `math_answer.<name>`.

An independent implementation. They run in a worker with a limit on time and memory, where the originals use SIGALRM
(main thread only) or nothing. A comparison that exceeds the limit scores 0.0, and so does a text of more than half a
million characters.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable

from vlrft.grading import expects, gold_texts
from vlrft.schema import Sample

from ._easyr1 import close_tags
from ._math_forms import mathruler_form, oat_form
from ._math_verify import in_worker, library, parse, verify
from ._prm800k import same_answer
from ._visual_rft import find_tagged

_BRACE = re.compile(r"[{}]")
# Values of the tag `form` of prompts that ask for the answer in a tag: with thinking before it, the same with a space between
# them, and without thinking.
_SPACED = "spaced"
_TAGGED = ("tagged", _SPACED, "answer")
_JUNCTION = "</think> <answer>"


def r1v(completion: str, sample: Sample) -> float | None:
    """R1-V's training reward: math-verify on the whole completion, else equality with the text of the first `<answer>`.

    Defects: a number directly before `<` is not read, so that the last number of the thinking often decides; an answer
    that spans lines has no tag; an unreadable gold answer can only be equalled as text.
    """
    return _call_worker(_r1v, completion, sample)


def r1v_count(completion: str, sample: Sample) -> float | None:
    """R1-V's training reward, `math_answer.r1v`, for a gold answer that is a count.

    Defects: those of `math_answer.r1v`; `count.r1v_eval`, which evaluates the run, reads the tag alone.
    """
    return _call_worker(_r1v, completion, sample, kind="count")


def r1v_eval(completion: str, sample: Sample) -> float | None:
    """R1-V's GeoQA evaluation: math-verify on the whole output and the bare gold answer.

    Defects: as `r1v`, and the tag is ignored; `√{3}` cannot be read and `8√{3}` is read as 8, which makes 77 of the 754
    gold answers unreachable or wrong.
    """
    return _call_worker(_r1v_eval, completion, sample)


def mathruler(completion: str, sample: Sample) -> float | None:
    """EasyR1's accuracy: the last `\\boxed{…}` by mathruler, after the spaces around `<`, `>` and `/` are removed. Does not apply where
    the prompt asks for the answer in a tag (tag `form`: tagged, spaced or answer).

    Defects: units, percent signs and degrees are dropped on both sides, so that a wrong unit passes; `\\frac{a+1}{b}`
    is read as a + 1/b; an unreduced fraction is wrong; the thinking is not removed. The original evaluates the
    model's text as Python; this does not.
    """
    return _call_worker(_mathruler, completion, sample) if _may_ask_for_box(sample) else None


def dr_grpo(completion: str, sample: Sample) -> float | None:
    """Dr.GRPO's reward (oat, `fast`): the last `\\boxed{…}`, which is required, compared as in `mathruler`, with more
    units and one name for all matrices. Where the prompt is R1-Zero's (tag `form`: spaced), in place of the box the text after
    the last `<answer>`, or the last box in it; `</think> <answer>`, with one space, and `</answer>` are required. Does not apply
    where the prompt asks for the answer in another tag (tag `form`: tagged or answer).

    Defects: those of `mathruler`'s comparison; single letters such as `a` and `t` are units, so that `x=a` is `x=t`; of
    several tags the last counts, and one that is not closed where another is.
    """
    if sample.tags.get("form") == _SPACED:
        return _call_worker(_dr_grpo_tag, completion, sample)
    return _call_worker(_dr_grpo, completion, sample) if _may_ask_for_box(sample) else None


def open_r1(completion: str, sample: Sample) -> float | None:
    """open-r1's and open-rs' accuracy: math-verify on LaTeX, a box first.

    Reads the data set's solution, `info["solution"]`, as released; where there is none, the gold answer between
    dollar signs. Defects: a solution without LaTeX that math-verify reads, such as a bare `7`, gives 1.0 to every
    completion; an answer outside of LaTeX marks is not read.
    """
    return _call_worker(_open_r1, completion, sample, _solutions)


def open_rs_length(completion: str, sample: Sample) -> float | None:
    """Whether the length reward of open-rs takes an answer for right: as `open_r1`, but a unit inside of
    `$\\boxed{…}$` makes an answer wrong."""
    return _call_worker(_open_rs_length, completion, sample, _solutions)


def lighteval(completion: str, sample: Sample) -> float | None:
    """lighteval's `expr_latex` match: LaTeX (a box first) or a plain number, rounded to 5 digits.

    By math-verify, which grew out of that extractor. Defects: searches the prose; an unreadable gold answer can never
    be equalled.
    """
    return _call_worker(_lighteval, completion, sample)


def _may_ask_for_box(sample: Sample) -> bool:
    return sample.tags.get("form") not in _TAGGED


def _call_worker(
    grade: Callable[[str, tuple[str, ...]], float],
    completion: str,
    sample: Sample,
    read_gold: Callable[[Sample], tuple[str, ...]] = gold_texts,
    kind: str = "math",
) -> float | None:
    """The grade computed in the worker; None for a sample of another kind. Raises DataError for a gold answer that is
    not text or a number."""
    if not expects(sample, kind):
        return None
    return in_worker(grade, completion, read_gold(sample)) or 0.0


def _r1v(completion: str, gold_answers: tuple[str, ...]) -> float:
    tag = find_tagged(completion, lines=False)
    answer = (completion if tag is None else tag).strip()
    return float(
        any(
            verify(parse(completion), parse(f"<answer> {gold} </answer>")) or answer == gold.strip()
            for gold in gold_answers
        )
    )


def _r1v_eval(completion: str, gold_answers: tuple[str, ...]) -> float:
    parsed = parse(completion)
    return float(any(verify(parsed, parse(gold)) for gold in gold_answers))


def _mathruler(completion: str, gold_answers: tuple[str, ...]) -> float:
    text = close_tags(completion)
    start = text.rfind("\\boxed{")
    boxed = None if start < 0 else _box(text, start + len("\\boxed"))
    answer = "None" if boxed is None else boxed.strip()
    return float(any(same_answer(answer, gold, mathruler_form) for gold in gold_answers))


def _dr_grpo(completion: str, gold_answers: tuple[str, ...]) -> float:
    return _same_as_any(_last_box(completion), gold_answers)


def _dr_grpo_tag(completion: str, gold_answers: tuple[str, ...]) -> float:
    if _JUNCTION not in completion or "</answer>" not in completion:
        return 0.0
    answer = completion.rpartition("<answer>")[2].replace("</answer>", "")
    return _same_as_any(_last_box(answer) if "\\boxed" in answer else answer, gold_answers)


def _same_as_any(answer: str | None, gold_answers: tuple[str, ...]) -> float:
    """1.0 where oat's comparison takes the answer for one of the gold answers."""
    golds = [_last_box(gold) if "\\boxed" in gold else gold for gold in gold_answers]
    return float(
        answer is not None
        and any(gold is not None and same_answer(answer, gold, oat_form) for gold in golds)
    )


def _open_r1(completion: str, gold_answers: tuple[str, ...]) -> float:
    return _match_latex(completion, gold_answers, "all")


def _open_rs_length(completion: str, gold_answers: tuple[str, ...]) -> float:
    return _match_latex(completion, gold_answers, True)


def _match_latex(completion: str, gold_answers: tuple[str, ...], boxed: str | bool) -> float:
    """open-r1's comparison. `boxed`: math-verify's setting, which the authors' two rewards give differently. With True,
    no value that it documents, a box between dollar signs is not opened, so that a unit in it stays: `$\\boxed{7\\text{
    cm}}$` is 7 only with `all`."""
    module = library()
    style = module.LatexExtractionConfig(
        normalization_config=importlib.import_module("latex2sympy2_extended").NormalizationConfig(
            basic_latex=True,
            units=True,
            malformed_operators=False,
            nits=False,
            boxed=boxed,
        ),
        boxed_match_priority=0,
        try_extract_without_anchor=False,
    )
    answer = parse(completion, extraction_config=[style], extraction_mode="first_match")
    plain = [module.LatexExtractionConfig()]
    for gold in gold_answers:
        right = parse(gold, extraction_config=plain, extraction_mode="first_match")
        if not right or verify(answer, right):
            return 1.0
    return 0.0


def _lighteval(completion: str, gold_answers: tuple[str, ...]) -> float:
    module = library()
    plain = module.ExprExtractionConfig()
    answer = parse(
        completion,
        extraction_config=[plain, module.LatexExtractionConfig(boxed_match_priority=0)],
    )
    gold_styles = [module.LatexExtractionConfig(), plain]
    return float(
        any(
            verify(parse(_latex(gold), extraction_config=gold_styles), answer, float_rounding=5)
            for gold in gold_answers
        )
    )


def _solutions(sample: Sample) -> tuple[str, ...]:
    solution = sample.info.get("solution")
    return (solution,) if isinstance(solution, str) else tuple(map(_latex, gold_texts(sample)))


def _latex(gold: str) -> str:
    return gold if "$" in gold or "\\boxed" in gold else f"${gold}$"


def _last_box(text: str) -> str | None:
    """The content of the last `\\boxed`; None when it has no braces, or they do not balance."""
    start = text.rfind("\\boxed") + len("\\boxed")
    return _box(text, start) if start >= len("\\boxed") and text.startswith("{", start) else None


def _box(text: str, start: int) -> str | None:
    """The content of the braces that open at `start`; None when they do not close."""
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[start + 1 : brace.start()]
    return None
