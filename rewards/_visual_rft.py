"""How Visual-RFT's released code reads an answer, and what its graders share."""

from __future__ import annotations

from vlrft.grading import sandboxed_worker
from vlrft.schema import DataError, Sample

from ._math_verify import NEEDS, SECONDS, parse, verify


def refuse_frame(sample: Sample) -> None:
    """Raises DataError where answers are in pixels of a frame: the released rewards take them for thousandths."""
    if "frame" in sample.info:
        raise DataError(
            f"sample {sample.id}: Visual-RFT's rewards read thousandths, the answers are in pixels of the resized "
            "image; use boxes, boxes.giou or boxes.detected"
        )


def tagged(text: str, *, lines: bool) -> str | None:
    """What `<answer>(.*?)</answer>` finds first, across line breaks only with `lines`; in linear
    time, which a search for the pattern is not."""
    start = text.find("<answer>")
    while start >= 0:
        inside = start + len("<answer>")
        end = text.find("</answer>", inside)
        if end < 0:
            return None
        line = -1 if lines else text.find("\n", inside, end)
        if line < 0:
            return text[inside:end]
        start = text.find("<answer>", line)
    return None


def squeezed(text: str) -> str:
    """Without spaces and underscores, in lower case."""
    return text.replace(" ", "").replace("_", "").lower()


def math_agrees(completion: str, solution: str) -> bool:
    """Whether math-verify takes the completion for the solution; not, where it runs over its time."""
    return sandboxed_worker().call(_agrees, (completion, solution), SECONDS, NEEDS) is True


def _agrees(completion: str, solution: str) -> bool:
    return verify(parse(completion), parse(solution))
