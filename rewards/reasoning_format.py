"""Which form of reasoning an answer has: a mark for advantage steps, to be given the weight 0."""

from __future__ import annotations

from vlrft.schema import Sample, no_grader

__all__ = ["reasoning_format"]

_TAGS = ("<COT>", "<CODE>", "<ANSWER>", "<LONG_COT>")


@no_grader
def reasoning_format(completion: str, sample: Sample) -> float:
    """The number of the tag that the completion begins with: 1 <COT>, 2 <CODE>, 3 <ANSWER> (no reasoning), 4 <LONG_COT>; 0 for
    none of them. It is no measure of quality: `rewards: {reasoning_format: 0}`, and the step `rare_formats` reads it.

    Source: ARM (github.com/TEAM-ARM/ARM, verl/trainer/ppo/core_algos.py, `get_reasoning_format`), where a completion
    without a tag must have earned nothing.
    """
    text = completion.lstrip()
    return next((k + 1.0 for k, tag in enumerate(_TAGS) if text.startswith(tag)), 0.0)
