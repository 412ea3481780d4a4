"""ms-swift's messages with `objects` for grounding, or with a `solution` for its reward functions
(docs/source_en/Customization/Custom-dataset.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from vlrft.data import Defect
from vlrft.schema import DataError

from ..columns import cell_of
from ..entry import BoxForm, Entry, Raw, Reading, Taken
from ..shapes import Shape, ends_with_reply, has, read_shape, talks

if TYPE_CHECKING:
    from ..options import Options

REF, BOX = "<ref-object>", "<bbox>"
UNITS: Mapping[str, Any] = {"real": "pixels", "norm1": "normalised"}


class Swift:
    """Where the reply has boxes, they are the gold answer; a `<bbox>` or `<ref-object>` in a message of the user is replaced
    by the object's text or box."""

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
        if not has(raw, "objects"):
            return _SOLUTIONS.read(raw, options)
        places = _REPLIES.places(raw, options)
        reading = Reading(entries=partial(_read, raw, places))
        units = {str(cell_of(row, "objects.bbox_type") or "real") for row in raw.head}
        if len(units) > 1 or not units <= UNITS.keys():
            raise DataError(
                f"{raw.source.label}: `objects.bbox_type` is {' and '.join(sorted(units))}; expected real or norm1 in all rows"
            )
        golds = [e.answer for e in islice(reading.entries(), 20) if isinstance(e, Entry)]
        boxed = [g for g in golds if isinstance(g, list)]
        if 2 * len(boxed) <= len(golds):
            return _REPLIES.reading(raw, options, places, reading.entries)
        points = all(len(box) == 2 for boxes in boxed for box in boxes)
        one = all(len(boxes) == 1 for boxes in boxed)
        return replace(
            reading,
            kind="point" if points else "box" if one else "boxes",
            boxes=BoxForm(unit=UNITS[units.pop()], corners="xyxy"),
            taken=(
                Taken(role="question", place="messages", why=self.name),
                Taken(role="gold answer", place="objects.bbox", why="the reply has <bbox>"),
                Taken(role="pictures", place="images", why=self.name),
            ),
        )


_REPLIES = Shape(name="swift", doc="", question="messages", shown_by=lambda raw: "")
_SOLUTIONS = replace(_REPLIES, answer="solution")


def _read(raw: Raw, places: Any) -> Iterator[Entry | Defect]:
    for entry in read_shape(raw, places):
        if isinstance(entry, Defect):
            yield entry
            continue
        try:
            yield _fill_objects(entry)
        except ValueError as e:
            yield Defect(id=entry.id, reason="incomplete row", detail=str(e))


def _fill_objects(entry: Entry) -> Entry:
    """The entry with its objects in place of their marks. Raises ValueError where there are fewer objects than marks."""
    objects: Any = entry.columns.get("objects") or {}
    refs = iter(objects.get("ref") or ())
    boxes = iter(objects.get("bbox") or ())
    context = tuple((role, _fill(text, refs, boxes)) for role, text in entry.context)
    question = _fill(entry.question, refs, boxes)
    reply = str(entry.answer)
    if BOX not in reply:
        return replace(entry, context=context, question=question, answer=_fill(reply, refs, boxes))
    answer = [list(_next(boxes, BOX)) for _ in range(reply.count(BOX))]
    return replace(entry, context=context, question=question, answer=answer)


def _fill(text: str, refs: Iterator[Any], boxes: Iterator[Any]) -> str:
    parts: list[str] = []
    while True:
        places = [(text.find(mark), mark) for mark in (REF, BOX) if mark in text]
        if not places:
            return "".join([*parts, text])
        place, mark = min(places)
        filling = _next(refs, REF) if mark == REF else _next(boxes, BOX)
        parts += [text[:place], str(filling if mark == REF else list(filling))]
        text = text[place + len(mark) :]


def _next(things: Iterator[Any], mark: str) -> Any:
    try:
        thing = next(things)
    except StopIteration:
        raise ValueError(f"its messages have more {mark} than its objects") from None
    if mark == BOX and not isinstance(thing, Sequence):
        raise ValueError(f"its box {thing!r} is no list")
    return thing


FORMAT = Swift()
