"""Parts that the ports of Visual-RFT's released graders share: reading a tag, and math-verify."""

from __future__ import annotations

from vlrft.schema import DataError, Sample

from ._math_verify import in_worker, parse, verify


def refuse_frame(sample: Sample) -> None:
    """Raises DataError where answers are in pixels of a frame: the released rewards read them as thousandths."""
    if "frame" in sample.info:
        raise DataError(
            f"sample {sample.id}: Visual-RFT's rewards read thousandths, but the answers are in pixels of the resized "
            "image; use boxes, boxes.giou or boxes.detected"
        )


def find_tagged(text: str, *, lines: bool) -> str | None:
    """The first match of `<answer>(.*?)</answer>`, which spans lines only with `lines`; in linear time, unlike a
    search for the pattern: a line that holds no match is never read again."""
    start = text.find("<answer>")
    while start >= 0:
        inside = start + len("<answer>")
        line_end = -1 if lines else text.find("\n", inside)
        end = text.find("</answer>", inside, len(text) if line_end < 0 else line_end)
        if end >= 0:
            return text[inside:end]
        if line_end < 0:
            return None
        start = text.find("<answer>", line_end)
    return None


def squeeze(text: str) -> str:
    """The text in lower case, without spaces and underscores."""
    return text.replace(" ", "").replace("_", "").lower()


def math_agrees(completion: str, solution: str) -> bool:
    """Whether math-verify takes the completion for the solution; False where it exceeds a limit."""
    return in_worker(_agrees, completion, solution) is True


def _agrees(completion: str, solution: str) -> bool:
    return verify(parse(completion), parse(solution))
