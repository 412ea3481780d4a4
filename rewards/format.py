"""The form of a completion, whatever it says."""

from __future__ import annotations

from vlrft.grading import read_answer
from vlrft.schema import Sample

_TAGS = ("<think>", "</think>", "<answer>", "</answer>")


def format(completion: str, sample: Sample) -> float:  # noqa: A001 (named like its file)
    """1.0 for `<answer>…</answer>`, with nothing around it but one `<think>…</think>` before it;
    else 0.0.

    Applies to every sample. An empty answer, a nested or repeated tag or an answer too long to read
    earns nothing.
    """
    text = completion.strip()
    if read_answer(text) is None or any(text.count(tag) > 1 for tag in _TAGS):
        return 0.0
    thought, closed, spoken = (part.strip() for part in text.rpartition("</think>"))
    thinks = thought.startswith("<think>") if closed else "<think>" not in spoken
    return float(thinks and spoken.startswith("<answer>") and spoken.endswith("</answer>"))
