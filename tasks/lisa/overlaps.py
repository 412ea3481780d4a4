"""The pixels that an answer and its target share: the answer's box is filled, or a SAM model makes a mask of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vlrft.grading import read_answer, read_box
from vlrft.schema import Record, RecordCompleter, Sample
from vlrft.vision.boxes import THOUSAND, Box, is_proper, rescale
from vlrft.vision.masks import Mask, fill_box, overlap

from .masked import target_mask
from .rows import RECTANGLE, Options

Overlap = tuple[int, int]  # pixels of the intersection and of the union
STORED = "overlap"  # key of a record's info, where a SAM model made the mask


def overlaps(records: Sequence[Record]) -> list[Overlap]:
    """The overlap of each answer to one sample: of the filled box, or the one stored in the record."""
    if all(STORED in r.info for r in records):
        return [(int(r.info[STORED][0]), int(r.info[STORED][1])) for r in records]
    target, size = _target(records[0]), records[0].info["size"]
    boxes = [_answer_box(r) for r in records]
    return [overlap(None if box is None else fill_box(box, size), target) for box in boxes]


def complete(options: Options) -> RecordCompleter | None:
    """Stores in each record the overlap of the mask that a SAM model makes of its box; None where boxes are filled, which
    takes neither a model nor the picture. Raises ConfigError for a source that is not a SAM model."""
    if options.masks == RECTANGLE:
        return None
    from vlrft.vision.sam import Segmenter

    segmenter = Segmenter(options.masks)

    def by_model(samples: Sequence[Sample], records: Sequence[Record]) -> Sequence[Record]:
        images = {s.id: s.images[0] for s in samples}
        boxes: dict[str, list[tuple[int, Box]]] = {}  # sample -> its records' indices and boxes
        for index, record in enumerate(records):
            if (box := _answer_box(record)) is not None:
                boxes.setdefault(record.id, []).append((index, box))
        prompts = [(images[name], [box for _, box in pairs]) for name, pairs in boxes.items()]
        by_index: dict[int, Overlap] = {}
        for pairs, masks in zip(boxes.values(), segmenter.masks(prompts), strict=True):
            target = _target(records[pairs[0][0]])
            for (index, _), mask in zip(pairs, masks, strict=True):
                by_index[index] = overlap(mask.astype("uint8"), target)
        return [
            _store(record, by_index.get(index) or overlap(None, _target(record)))
            for index, record in enumerate(records)
        ]

    return by_model


def _store(record: Record, pixels: Overlap) -> Record:
    return replace(record, info={**record.info, STORED: list(pixels)})


def _target(record: Record) -> Mask:
    return target_mask(record.info)


def _answer_box(record: Record) -> Box | None:
    """The answer's box in pixels of the picture; None when it has none or an improper one."""
    size = record.info["size"]
    frame = record.info.get("frame", (THOUSAND, THOUSAND))
    answer = read_answer(record.output)
    box = None if answer is None else read_box(answer)
    return None if box is None or not is_proper(box, *frame) else rescale(box, frame, size)
