"""Time-R1's released grading of a segment of time, as `temporal_iou.<name>`. An independent implementation.

Read in github.com/www-Ye/Time-R1 (`src/open_r1/grpo_video.py`, `evaluate.py`) and github.com/xiaomi-research/time-r1
(`main.py`, `evaluate.py`), of which the second has the first one's functions and more.
"""

from __future__ import annotations

import math
import re

from vlrft.grading import expects
from vlrft.schema import DataError, Sample

from ._segments import gold_segment

# What follows the first number of the released `(\d+\.?\d*) (to|and) (\d+\.?\d*)`, which reads a run of digits again from each of
# its digits. `\d` has the digits of all scripts, as released.
_AFTER = re.compile(r" (?:to|and) (\d+(?:\.\d*)?)")
_CASELESS = re.compile(_AFTER.pattern, re.IGNORECASE)


def time_r1(completion: str, sample: Sample) -> float | None:
    """TimeZero's and Time-R1's training reward `iou`: the IoU of the last `start to end` (or `start and end`) in the last answer tag
    with the gold segment, in [0, 1]. None when the gold answer is not a segment.

    Defects: prose around the pair, and pairs before it, are not looked at; a tag in the thinking counts as any other.
    Raises DataError for a gold answer that is not a segment.
    """
    if not expects(sample, "segment"):
        return None
    gold = gold_segment(sample)
    pair = _last_pair(_CASELESS, _last_tag(completion))
    return 0.0 if pair is None else _iou(pair, gold)


def time_r1_scaled(completion: str, sample: Sample) -> float | None:
    """Time-R1's training reward `iou_v2`, which its scripts use: `time_r1` times 1 − |Δstart| / duration times
    1 − |Δend| / duration. None when the gold answer is not a segment.

    Defect: far beyond the video both factors may be negative, but the IoU is 0 or small there. Raises DataError where the
    sample's `info` has no `duration` in seconds.
    """
    if not expects(sample, "segment"):
        return None
    gold = gold_segment(sample)
    duration = sample.info.get("duration")
    if isinstance(duration, bool) or not isinstance(duration, int | float) or not duration > 0:
        raise DataError(
            f"sample {sample.id}: temporal_iou.time_r1_scaled needs the video's duration, which the data do not state; "
            "use temporal_iou.time_r1"
        )
    pair = _last_pair(_CASELESS, _last_tag(completion))
    if pair is None:
        return 0.0
    near = [1 - abs(g / duration - p / duration) for g, p in zip(gold, pair, strict=True)]
    reward = _iou(pair, gold) * near[0] * near[1]
    return reward if math.isfinite(reward) else 0.0


def time_r1_eval(completion: str, sample: Sample) -> float | None:
    """Time-R1's evaluation on Charades-STA and ActivityNet: the IoU of the last `start to end` (or `start and end`) anywhere in the output
    with the gold segment, in [0, 1]. None when the gold answer is not a segment.

    Defects: the thinking counts as an answer, with or without a tag; `From 3 TO 5`, `3-5` and `3s to 5s` are not read.
    Raises DataError for a gold answer that is not a segment.
    """
    if not expects(sample, "segment"):
        return None
    gold = gold_segment(sample)
    pair = _last_pair(_AFTER, completion)
    return 0.0 if pair is None else _iou(pair, gold)


def _last_tag(text: str) -> str:
    """The text of the last answer tag, tags read from left to right; "" without any."""
    answer, place = "", text.find("<answer>")
    while place >= 0:
        end = text.find("</answer>", place)
        if end < 0:
            break
        answer = text[place + len("<answer>") : end]
        place = text.find("<answer>", end)
    return answer


def _last_pair(after: re.Pattern[str], text: str) -> tuple[float, float] | None:
    """The last of the pairs that do not overlap, read from left to right."""
    last, free = None, 0
    for match in after.finditer(text):
        start = _start_of_number(text, free, match.start())
        if start < match.start():
            last, free = (float(text[start : match.start()]), float(match[1])), match.end()
    return last


def _start_of_number(text: str, first: int, end: int) -> int:
    r"""Where the longest `\d+\.?\d*` that ends at `end` begins, from `first` on; `end` without one."""
    start = _start_of_digits(text, first, end)
    if start > first and text[start - 1] == ".":
        whole = _start_of_digits(text, first, start - 1)
        return whole if whole < start - 1 else start
    return start


def _start_of_digits(text: str, first: int, end: int) -> int:
    while end > first and text[end - 1].isdecimal():
        end -= 1
    return end


def _iou(pair: tuple[float, float], gold: tuple[float, float]) -> float:
    """As released; 0 for numbers beyond the range of a float, of which the released code makes NaN."""
    shared = max(min(pair[1], gold[1]) - max(pair[0], gold[0]), 0.0)
    union = max(pair[1], gold[1]) - min(pair[0], gold[0])
    overlap = shared / union if union > 0 else 0.0
    return overlap if math.isfinite(overlap) else 0.0
