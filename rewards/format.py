"""The form of a completion, whatever its content."""

from __future__ import annotations

import re

from vlrft.grading import MAX_ANSWER, MAX_LIST, read_answer, read_boxed, with_opened
from vlrft.schema import Sample, no_grader

from ._easyr1 import close_tags

__all__ = ["easyr1", "format", "open_rs", "r1", "vlm_r1"]

_TAGS = ("<think>", "</think>", "<answer>", "</answer>")
_JUNCTION = re.compile(r"</think>\s*<answer>")
_NUMBERS = re.compile(r"\[\d+,\s*\d+,\s*\d+,\s*\d+\]")


@no_grader
def format(completion: str, sample: Sample) -> float:  # noqa: A001 (named like its file)
    """1.0 for `<answer>…</answer>`, with nothing around it but one `<think>…</think>` before it; else 0.0.

    Where the prompt asks for thinking and a box (tag `form`: boxed), 1.0 for one `<think>…</think>` and a
    `\\boxed{…}` after it; where it asks for a box only (`form`: box), for a box. Applies to every sample. An empty
    answer, a nested or repeated tag or an answer too long to read earns nothing. Where the prompt already opens the
    thinking (tag `opened`), the completion continues from there, for the released forms as well.
    """
    text = with_opened(completion, sample).strip()
    if any(text.count(tag) > 1 for tag in _TAGS):
        return 0.0
    if sample.tags.get("form") == "box":
        return float(read_boxed(text) is not None)
    thought, closed, response = (part.strip() for part in text.rpartition("</think>"))
    thinks = thought.startswith("<think>") if closed else "<think>" not in response
    if sample.tags.get("form") == "boxed":
        return float(bool(closed) and thinks and read_boxed(text) is not None)
    limit = MAX_LIST if sample.tags.get("answer") == "boxes" else MAX_ANSWER
    if read_answer(text, limit) is None:
        return 0.0
    return float(thinks and response.startswith("<answer>") and response.endswith("</answer>"))


@no_grader
def r1(completion: str, sample: Sample) -> float:
    """The format reward of R1-V, Visual-RFT and VisualThinker: the whole completion is `<think>…</think>`, white space,
    `<answer>…</answer>`.

    Defects: tags may occur inside the thinking or the answer; an empty answer has the form.
    """
    text = with_opened(completion, sample)
    if not (text.startswith("<think>") and text.endswith("</answer>")):
        return 0.0
    return float(_JUNCTION.search(text, len("<think>"), len(text) - len("</answer>")) is not None)


@no_grader
def easyr1(completion: str, sample: Sample) -> float:
    """EasyR1's format reward: `<think>`, then `</think>`, then `\\boxed{`, then `}`, with anything between them and
    after.

    White space around `<`, `>` and `/` is removed first. Defects: an empty box has the form.
    """
    text = close_tags(with_opened(completion, sample))
    if not text.startswith("<think>"):
        return 0.0
    place = len("<think>")
    for mark in ("</think>", "\\boxed{", "}"):
        place = text.find(mark, place)
        if place < 0:
            return 0.0
        place += len(mark)
    return 1.0


@no_grader
def open_rs(completion: str, sample: Sample) -> float:
    """The format reward of open-rs: exactly one `</think>` on a line by itself.

    Defects: does not ask for an answer.
    """
    return float(completion.count("\n</think>\n") == 1)


@no_grader
def vlm_r1(completion: str, sample: Sample) -> float:
    """VLM-R1's format reward for referring expressions: `<think>`, later `</think>`, white space and `<answer>`, and in what
    follows a `{`, four whole numbers in brackets, a `}` and `</answer>`, in this order.

    Defects: any text around and between these parts is accepted. Source: VLM-R1, `qwen_module.py`, `format_reward_rec`.
    """
    text = with_opened(completion, sample)
    start = text.find("<think>")
    junction = _JUNCTION.search(text, start + len("<think>")) if start >= 0 else None
    if junction is None:
        return 0.0
    end = text.rfind("</answer>")
    closed = text.rfind("}", 0, max(end, 0))
    opened = text.find("{", junction.end())
    if min(end, closed, opened) < 0 or opened > closed:
        return 0.0
    return float(_NUMBERS.search(text, opened, closed) is not None)
