"""Referring expressions with a box: Qwen-VL's jsonl, VLM-R1's json, lmms-lab's RefCOCO sets, and rows like theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from vlrft.data import Cells, Defect, number_rows, read_row
from vlrft.schema import DataError

from ..columns import IMAGES, cell_of, find_column, is_missing
from ..entry import BoxForm, Entry, Raw, Reading, Taken
from ..shapes import has
from ._places import find_name
from .columns import FORMAT as COLUMNS
from .columns import row_label

if TYPE_CHECKING:
    from ..options import Options

EXPRESSIONS = (
    *("sent", "sents", "sentence", "sentences", "expression", "expressions", "normal_caption"),
    *("referring_expression", "ref", "refer", "phrase"),
)
LMMS = ("question_id", "answer", "bbox", "segmentation", "iscrowd", "file_name")
# The sets whose boxes are known; of others the options have to say it.
KNOWN: Mapping[tuple[str, ...], tuple[str, str, BoxForm]] = {
    LMMS: ("answer", "bbox", BoxForm(unit="pixels", corners="xywh")),
    ("normal_caption", "solution", "normalized_solution"): (
        *("normal_caption", "solution"),
        BoxForm(unit="pixels", corners="xyxy"),
    ),
    ("sent", "bbox", "width", "height"): (
        *("sent", "bbox"),
        BoxForm(unit="pixels", corners="xyxy"),
    ),
}


class References:
    """A row may have several expressions of one object; each is a question. Where the options name the column of the question
    or of the gold answer, the table is read as any other."""

    name = "references"
    doc = "RefCOCO-style: image, an expression (sent, expression, normal_caption, …), bbox"

    def recognises(self, raw: Raw) -> str:
        found = _columns(raw)
        return f"`{found[0]}` beside `{found[1]}`" if raw.head and found is not None else ""

    def read(self, raw: Raw, options: Options) -> Reading:
        if options.question or options.answer_column or isinstance(options.image, tuple):
            return COLUMNS.read(raw, options)
        found = _columns(raw)
        image = find_column(raw, "picture", "image", options.image, ())[0]
        image = image or next((name for name in IMAGES if has(raw, name)), None)
        label = None if options.id is None else find_name(raw, options)[0]
        if found is None or image is None:
            raise DataError(
                f"{raw.source.label}: no {'picture' if found else 'expression and box'}; looked for "
                f"{', '.join(IMAGES[:6] if found else EXPRESSIONS)}{'' if found else ' beside bbox'}; columns are "
                f"{', '.join(raw.columns[:16])}"
            )
        expression, box, form = found
        return Reading(
            entries=partial(_read, raw, (expression, box, image), label),
            kind="box",
            boxes=form,
            taken=(
                Taken(role="question", place=expression, why=self.name),
                Taken(role="gold answer", place=box, why=self.name),
                Taken(role="pictures", place=image, why=self.name),
            ),
        )


def _columns(raw: Raw) -> tuple[str, str, BoxForm | None] | None:
    """The columns of the expression and the box, and how the box is written where that is known."""
    for columns, known in KNOWN.items():
        if has(raw, *columns):
            return known
    expression = next((name for name in EXPRESSIONS if has(raw, name)), None)
    box = next((name for name in ("bbox", "box", "bbox_2d") if has(raw, name)), None)
    return None if expression is None or box is None else (expression, box, None)


def _read(raw: Raw, places: tuple[str, str, str], label: str | None) -> Iterator[Entry | Defect]:
    """`places`: the columns of the expression, the box and the picture; `label`: that of the row's name."""
    for number, cells in number_rows(raw.rows()):
        name = row_label(raw, number, cells, label)
        found = read_row(name, partial(_row, raw, cells, name, *places))
        if isinstance(found, Defect):
            yield found
        else:
            yield from found


def _row(
    raw: Raw, cells: Cells, name: str, expression: str, box: str, image: str
) -> Sequence[Entry]:
    value: Any = cell_of(cells, expression)
    texts = [value] if isinstance(value, str) else list(value or ())
    texts = [t.get("sent", "") if isinstance(t, Mapping) else t for t in texts]
    if not texts or not all(isinstance(t, str) and t.strip() for t in texts):
        raise DataError(f"no expression in {expression}")
    answer = cell_of(cells, box)
    if is_missing(answer):
        raise KeyError(f"{box}, which is the gold answer")
    pictures = raw.finder.find_all(cell_of(cells, image), name)
    width, height = cells.get("width"), cells.get("height")
    size = None
    if type(width) is int and type(height) is int and min(width, height) > 0:
        size = (width, height)
    return [
        Entry(
            id=name if len(texts) == 1 else f"{name}/{k}",
            question=f"Find what this describes: {text}",
            pictures=pictures,
            size=size,
            answer=list(answer) if not isinstance(answer, str | Mapping) else answer,
            columns=cells,
        )
        for k, text in enumerate(texts)
    ]


FORMAT = References()
