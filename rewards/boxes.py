"""A box, by its overlap with the gold one."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

from vlrft.boxes import Box, iou, is_proper
from vlrft.grading import expects, read_answer, read_box
from vlrft.schema import DataError, Sample


def boxes(completion: str, sample: Sample) -> float | None:
    """Intersection over union in [0, 1] of `(x1,y1),(x2,y2)` in thousandths; None when the gold
    answer is no box.

    0.0 for no box, more than one, or one that is inverted, without area or out of range. Raises
    DataError for a gold answer that is not four numbers of a proper box within 0 … 1000.
    """
    if not expects(sample, "box"):
        return None
    gold = _gold(sample)
    answer = read_answer(completion)
    box = None if answer is None else read_box(answer)
    return 0.0 if box is None else iou(box, gold)


def _gold(sample: Sample) -> Box:
    given = sample.answer
    if isinstance(given, Sequence) and len(given) == 4:
        numbers = [float(v) for v in given if isinstance(v, Real) and not isinstance(v, bool)]
        if len(numbers) == 4 and is_proper(box := (numbers[0], numbers[1], numbers[2], numbers[3])):
            return box
    raise DataError(
        f"sample {sample.id}: gold answer {given!r} is no box (x1, y1, x2, y2) within 0 to 1000"
    )
