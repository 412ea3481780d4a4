"""An answer's box as a mask, and how many pixels it shares with the target: filled, or what a SAM model makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vlrft.grading import read_answer, read_box
from vlrft.schema import Record, RecordCompleter, Sample
from vlrft.vision.boxes import THOUSAND, Box, is_proper, rescale
from vlrft.vision.masks import Mask, fill_box, overlap

from .polygons import paint
from .rows import RECTANGLE, Options

Overlap = tuple[int, int]  # pixels of the intersection and of the union
KEPT = "overlap"  # in a record's info, where finding it took more than the record


def overlaps(records: Sequence[Record]) -> list[Overlap]:
    """Of each answer to one sample, the box filled, unless the records keep what a model made of it."""
    if all(KEPT in r.info for r in records):
        return [(int(r.info[KEPT][0]), int(r.info[KEPT][1])) for r in records]
    target, size = _target(records[0]), records[0].info["size"]
    boxes = [_said(r) for r in records]
    return [overlap(None if box is None else fill_box(box, size), target) for box in boxes]


def complete(options: Options) -> RecordCompleter | None:
    """Keeps in each record the overlap of the mask that a SAM model makes of its box; None where boxes are filled,
    which takes neither a model nor the picture. Raises ConfigError for what is no SAM model."""
    if options.masks == RECTANGLE:
        return None
    from vlrft.vision.sam import Segmenter

    segmenter = Segmenter(options.masks)

    def by_model(samples: Sequence[Sample], records: Sequence[Record]) -> Sequence[Record]:
        images = {s.id: s.images[0] for s in samples}
        boxed: dict[str, list[tuple[int, Box]]] = {}  # sample -> places of its records with a box
        for place, record in enumerate(records):
            if (box := _said(record)) is not None:
                boxed.setdefault(record.id, []).append((place, box))
        asked = [(images[name], [box for _, box in own]) for name, own in boxed.items()]
        found: dict[int, Overlap] = {}
        for own, masks in zip(boxed.values(), segmenter.masks(asked), strict=True):
            target = _target(records[own[0][0]])
            for (place, _), mask in zip(own, masks, strict=True):
                found[place] = overlap(mask.astype("uint8"), target)
        return [
            _with(record, found.get(place) or overlap(None, _target(record)))
            for place, record in enumerate(records)
        ]

    return by_model


def _with(record: Record, found: Overlap) -> Record:
    return replace(record, info={**record.info, KEPT: list(found)})


def _target(record: Record) -> Mask:
    return paint(record.info["shapes"], record.info["size"])


def _said(record: Record) -> Box | None:
    """The answer's box in pixels of the picture; None for none or one that is not proper."""
    size = record.info["size"]
    frame = record.info.get("frame", (THOUSAND, THOUSAND))
    answer = read_answer(record.output)
    box = None if answer is None else read_box(answer)
    return None if box is None or not is_proper(box, *frame) else rescale(box, frame, size)
