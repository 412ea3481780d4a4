"""ms-swift's messages with `objects` for grounding, or with a `solution` for its reward functions
(docs/source_en/Customization/Custom-dataset.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from vlrft.data import Defect
from vlrft.schema import DataError
from vlrft.vision.boxes import THOUSAND, rescale, round_box

from ..box_cells import parse_box, to_thousandths
from ..columns import cell_of
from ..entry import BoxForm, Entry, Raw, Reading, Taken
from ..kind import Facts
from ..shapes import Shape, ends_with_reply, has, read_shape, talks

if TYPE_CHECKING:
    from ..options import Options

REF, BOX = "<ref-object>", "<bbox>"
UNITS: Mapping[str, Any] = {"real": "pixels", "norm1": "normalised"}


class Swift:
    """Where the reply has boxes, they are the gold answer; a `<bbox>` or `<ref-object>` in a message of the user is replaced
    by the object's text, or its box in the unit of the prompt."""

    name = "swift"
    doc = "ms-swift: messages, images, objects (ref, bbox); or messages, images, solution"

    def recognises(self, raw: Raw) -> str:
        if not raw.head or not talks(raw, "messages", "role"):
            return ""
        if has(raw, "objects"):
            return "`messages` beside `objects`"
        if has(raw, "solution") and not ends_with_reply(raw, "messages"):
            return "`messages` of the user beside `solution`"
        return ""

    def read(self, raw: Raw, options: Options) -> Reading:
        if not has(raw, "objects") or options.question or options.answer_column or options.image:
            return _SOLUTIONS.read(raw, options)
        places = _REPLIES.places(raw, options)
        units = {str(cell_of(row, "objects.bbox_type") or "real") for row in raw.head}
        if len(units) > 1 or not units <= UNITS.keys():
            raise DataError(
                f"{raw.source.label}: `objects.bbox_type` is {' and '.join(sorted(units))}; expected real or norm1 in all rows"
            )
        form = BoxForm(
            unit=options.box_unit or UNITS[units.pop()], corners=options.box_corners or "xyxy"
        )
        facts = Facts(options=options, boxes=form)
        reading = Reading(entries=partial(_read, raw, places, facts))
        golds = [e.answer for e in islice(reading.entries(), 20) if isinstance(e, Entry)]
        boxed = [g for g in golds if isinstance(g, list)]
        if 2 * len(boxed) <= len(golds):
            return _REPLIES.reading(raw, options, places, reading.entries)
        points = all(len(box) == 2 for boxes in boxed for box in boxes)
        one = all(len(boxes) == 1 for boxes in boxed)
        return replace(
            reading,
            kind="point" if points else "box" if one else "boxes",
            boxes=form,
            taken=(
                Taken(role="question", place="messages", why=self.name),
                Taken(role="gold answer", place="objects.bbox", why="the reply has <bbox>"),
                Taken(role="pictures", place="images", why=self.name),
            ),
        )


_REPLIES = Shape(name="swift", doc="", question="messages", shown_by=lambda raw: "")
_SOLUTIONS = replace(_REPLIES, answer="solution")


def _read(raw: Raw, places: Any, facts: Facts) -> Iterator[Entry | Defect]:
    for entry in read_shape(raw, places):
        if isinstance(entry, Defect):
            yield entry
            continue
        try:
            yield _fill_objects(entry, facts)
        except ValueError as e:
            yield Defect(id=entry.id, reason="incomplete row", detail=str(e))


def _fill_objects(entry: Entry, facts: Facts) -> Entry:
    """The entry with its objects in place of their marks. Raises ValueError where there are fewer objects than marks, and for a
    box in a message that is none of its picture."""
    objects: Any = entry.columns.get("objects") or {}
    refs = iter(objects.get("ref") or ())
    boxes = iter(objects.get("bbox") or ())
    fill = partial(_fill, refs=refs, boxes=boxes, write=partial(_write_box, entry, facts))
    context = tuple((role, fill(text)) for role, text in entry.context)
    question = fill(entry.question)
    reply = str(entry.answer)
    if BOX not in reply:
        return replace(entry, context=context, question=question, answer=fill(reply))
    answer = [list(_next(boxes, BOX)) for _ in range(reply.count(BOX))]
    return replace(entry, context=context, question=question, answer=answer)


def _fill(
    text: str, refs: Iterator[Any], boxes: Iterator[Any], write: Callable[[Sequence[Any]], str]
) -> str:
    parts: list[str] = []
    while True:
        places = [(text.find(mark), mark) for mark in (REF, BOX) if mark in text]
        if not places:
            return "".join([*parts, text])
        place, mark = min(places)
        filling = str(_next(refs, REF)) if mark == REF else write(_next(boxes, BOX))
        parts += [text[:place], filling]
        text = text[place + len(mark) :]


def _write_box(entry: Entry, facts: Facts, numbers: Sequence[Any]) -> str:
    """A box or a point of a message in the unit that the policy is asked for, not in that of the data. Raises ValueError."""
    point = len(numbers) == 2
    cell = parse_box([*numbers, *numbers] if point else list(numbers))
    box, info = to_thousandths(entry, facts, cell, area=False)
    if "frame" in info:
        width, height = info["frame"]
        x1, y1, x2, y2 = box
        box = list(round_box(rescale((x1, y1, x2, y2), (THOUSAND, THOUSAND), (width, height))))
    return str(box[:2] if point else box)


def _next(things: Iterator[Any], mark: str) -> Any:
    try:
        thing = next(things)
    except StopIteration:
        raise ValueError(f"its messages have more {mark} than its objects") from None
    if mark == BOX and not isinstance(thing, Sequence):
        raise ValueError(f"its box {thing!r} is no list")
    return thing


FORMAT = Swift()
