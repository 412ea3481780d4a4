"""Options of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from vlrft.schema.ranges import MAX_SEED, Range
from vlrft.vision.box_options import BoxOptions

from .entry import BoxCorners, BoxUnit
from .texts import read_text

Share = Annotated[float, Range(gt=0, lt=1)]
Seed = Annotated[int, Range(ge=0, le=MAX_SEED)]
Thousandths = Annotated[float, Range(gt=0, le=500)]


RESERVED_TAGS = ("answer", "options", "form", "opened")  # which rewards read


@dataclass(frozen=True, kw_only=True)
class Options(BoxOptions):
    """The table, its columns, what its answers are, and the prompt."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}
    bounds_of_data: ClassVar[bool] = True

    data: str | None = None
    """A table (jsonl, json, csv, tsv, parquet, arrow), a folder or zip with tables, a `datasets` folder, or a hub id."""
    answer: str | None = None
    """The kind of the gold answers, which chooses rewards, graders and metrics: math, choice, count, box, boxes, point, class,
    text, span or custom. A format that has only one kind needs none."""
    format: str | None = None
    """The layout of the rows: columns, or that of a known tool; found by itself where only one fits."""
    question: str | None = None
    """Column of the question, or of a conversation; `a.b` is column b of a nested column a. Here and below null: the column of
    a usual name, where only one fits."""
    answer_column: str | None = None
    """Column of the gold answer."""
    kinds: str | None = None
    """Column that says what the gold answer of each row is, for a table of several kinds with `answer: custom`: math, choice, count,
    box, boxes, segment, text, … Of the rewards those apply that grade this kind, and a row whose kind none grades is refused; null: all of
    them to every row."""
    image: str | tuple[str, ...] | None = None
    """Column of the picture or pictures, or several columns: [image_1, image_2]."""
    choices: str | tuple[str, ...] | None = None
    """Column with the list of choices of `answer: choice`, or one column for each choice: [A, B, C, D]."""
    thought: str | None = None
    """Column of the reasoning before the gold answer, which `sft` teaches; null: the gold answer alone."""
    id: str | None = None
    """Column of the row's name; null: `id` where its values differ, otherwise split and number."""
    tags: tuple[str, ...] = ()
    """Columns by whose values `vlrft compare --by` groups the rows."""
    images: str | None = None
    """Folder or zip of the pictures that the table names; null: paths are relative to the table."""
    urls: bool = False
    """Download pictures whose cell is a URL."""
    prompt: str | None = None
    """Template of the user message, or a text file with one: {question}, {choices}, {classes} and {column} of any column are
    replaced. null: a prompt that asks for the answer in the form that the reward reads."""
    system: str | None = None
    """A system message, or a text file with one."""
    splits: Mapping[str, str] = field(default_factory=dict[str, str])
    """Split of the run (train, validation, test) -> its name in the data, or another table: {test: testA}. Tables and folders named
    train, validation (val, dev) and test need none."""
    split_column: str | None = None
    """Column with the split of each row."""
    test_share: Share | None = None
    """Share of the train rows that are the test split instead; rows with the same picture stay together."""
    seed: Seed = 0
    """Of the drawing of `test_share`."""
    classes: str | tuple[str, ...] | None = None
    """Names of the classes of `answer: class` in the order of their numbers, or a text file with one a line."""
    first_choice: Literal[0, 1] | None = None
    """The number of the first choice, where gold answers are numbers of choices, also of choices that are numbers themselves. null: the
    only one that fits; a gold answer that is the number of one choice and the text of another is then refused."""
    box_unit: BoxUnit | None = None
    """Unit of the table's boxes and points: pixels of the picture, pixels of the picture as the processor resizes it, thousandths of
    its sides, or shares of 1."""
    box_corners: BoxCorners | None = None
    """Numbers of the table's boxes: two corners, or a corner, width and height."""
    radius: Thousandths | None = None
    """How far from a gold point an answer is right, in thousandths of the picture's sides; for `answer: point` with gold points."""

    def __post_init__(self) -> None:
        super().__post_init__()
        from .answers import kinds
        from .formats import formats
        from .splits import NAMES

        mistakes = [
            f"{key}: unknown name {value!r}; known: {', '.join(table)}"
            for key, value, table in (
                ("answer", self.answer, kinds()),
                ("format", self.format, formats()),
            )
            if value is not None and value not in table
        ]
        if reserved := [name for name in self.tags if name in RESERVED_TAGS]:
            mistakes.append(f"tags: {reserved[0]!r} is a tag of the rewards; rename the column")
        if self.kinds is not None and self.answer != "custom":
            mistakes.append(
                f"kinds: the answers are of one kind, {self.answer}; use answer: custom"
            )
        if unknown := [name for name in self.splits if name not in NAMES]:
            mistakes.append(f"splits: no split {unknown[0]!r}; known: {', '.join(NAMES)}")
        if self.seed and self.test_share is None:
            mistakes.append("seed: has no effect without test_share")
        if mistakes:
            raise ValueError("; ".join(mistakes))

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of `classes`, from its file where it is one; () without it. Raises DataError for a file that is not there."""
        if isinstance(self.classes, tuple):
            return self.classes
        text = read_text(self.classes, "classes") or ""
        return tuple(line.strip() for line in text.splitlines() if line.strip())
