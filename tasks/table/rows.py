"""The rows of a split: its part and its format are found, its entries are read, and their gold answers are checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, islice

from vlrft.data import Cells, Defect, PictureFinder, Row, Source, open_source, read_row
from vlrft.data.source import notes_of
from vlrft.data.split_rows import table_names
from vlrft.schema import DataError
from vlrft.schema.errors import MissingSplit

from .answers import kinds
from .columns import cell_of, is_missing
from .entry import BoxForm, Entry, Raw, Reading, Taken
from .formats import find_format
from .kind import AnswerKind, Facts
from .options import Options
from .part import Part
from .splits import NAMES, draw_share, find_part
from .templates import check_prompt, template_columns
from .texts import read_text

HEAD = 100  # rows by which formats and columns are recognised


def read(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    """The rows of a split of raw data. Raises DataError for data that are ambiguous."""
    with looking(source):
        part = find_part(source, split, options)
        raw, reading = open_part(part, split, options)
        kind = kind_of(raw, reading, options)
    entries = reading.entries()
    if part.share is not None and options.test_share is not None:
        entries = draw_share(entries, options.test_share, options.seed, drawn=part.share)
    head = list(islice(entries, HEAD))
    examples = [entry for entry in head if isinstance(entry, Entry)]
    facts = find_facts(source, kind, reading, examples, options)
    template = read_text(options.prompt, "prompt")
    system = read_text(options.system, "system")
    answer_column = next((t.place for t in reading.taken if t.role == "gold answer"), None)
    notes_of(source).extend(check_prompt(template, system, examples, answer_column, kind))
    seen: set[str] = set()
    for entry in chain(head, entries):
        if isinstance(entry, Defect):
            yield entry
        elif entry.id in seen:
            yield Defect(id=entry.id, reason="id twice")
        else:
            seen.add(entry.id)
            yield read_row(entry.id, partial(make_row, entry, kind, facts, split, template))


def describe(source: Source, split: str, options: Options) -> list[str]:
    """A line for each thing that is taken from raw data, with the reason."""
    part = find_part(source, split, options)
    raw, reading = open_part(part, split, options)
    kind = kind_of(raw, reading, options)
    examples = [e for e in islice(reading.entries(), HEAD) if isinstance(e, Entry)]
    facts = find_facts(source, kind, reading, examples, options)
    return [
        f"rows: {part.why}",
        *(f"{t.role}: {t.place} ({t.why})" for t in reading.taken),
        f"answers: {kind.name}, {kind.doc}",
        *facts.lines(),
    ]


@contextmanager
def looking(source: Source) -> Iterator[None]:
    """Rows that are looked at before they are read: those that cannot be read are not collected, as they are met again."""
    unreadable = getattr(source, "unreadable", None)
    before = len(unreadable or ())
    yield
    if unreadable is not None:
        del unreadable[before:]


def open_part(part: Part, split: str, options: Options) -> tuple[Raw, Reading]:
    """The part with its first rows, and its reading. Raises MissingSplit for a split that the hub does not have."""
    source = part.source
    head: tuple[Cells, ...] = ()
    if part.split is not None and (table_names(source) or not source.names()):
        try:
            head = tuple(islice(part.rows(), HEAD))
        except DataError as e:
            if not source.names() and split != "train":
                raise MissingSplit(f"{e}; or draw one from the rows: options.test_share=0.1") from e
            raise
    pictures = source if options.images is None else open_source(options.images)
    raw = Raw(
        source=source,
        split=part.split,
        name=split,
        finder=PictureFinder(
            pictures,
            part.split or split,
            urls=options.urls,
            present=True,
        ),
        rows=part.rows,
        head=head,
    )
    format_, why = find_format(raw, options.format)
    reading = format_.read(raw, options)
    taken = Taken(role="format", place=format_.name, why=why)
    return raw, replace(reading, taken=(taken, *reading.taken))


def kind_of(raw: Raw, reading: Reading, options: Options) -> AnswerKind:
    """The kind of the answers, by the options or the format. Raises DataError where neither says it."""
    name = options.answer or reading.kind
    if name is None:
        raise DataError(
            f"{raw.source.label}: say what the gold answers are: options.answer={' or '.join(kinds())}"
        )
    return kinds()[name]


def find_facts(
    source: Source, kind: AnswerKind, reading: Reading, examples: list[Entry], options: Options
) -> Facts:
    """The facts that hold for all rows. Raises DataError where the options have to say it."""
    facts = Facts(
        options=options,
        boxes=box_form(options, reading),
        classes=options.class_names or reading.classes,
    )
    if kind.prepare is not None:
        facts = kind.prepare(examples, facts, source.label)
    if kind.closed and not facts.classes:
        with looking(source):
            facts = replace(facts, classes=collect_answers(source, kind, options))
    refuse_equal_classes(facts.classes, kind, source.label)
    return facts


def refuse_equal_classes(classes: Sequence[str], kind: AnswerKind, label: str) -> None:
    """Raises DataError where the rewards of the kind cannot tell two classes apart."""
    by_key: dict[str, str] = {}
    for name in classes:
        other = by_key.setdefault(kind.key(name), name)
        if other != name:
            raise DataError(
                f"{label}: the classes {other!r} and {name!r} are one name without case, spaces, underscores and hyphens; "
                "write them alike if they are one class, else rename one"
            )


def box_form(options: Options, reading: Reading) -> BoxForm | None:
    """How boxes are written: as the options say, and for the rest as the format says; None where neither says all of it."""
    unit, corners = options.box_unit, options.box_corners
    if reading.boxes is not None:
        unit, corners = unit or reading.boxes.unit, corners or reading.boxes.corners
    return None if unit is None or corners is None else BoxForm(unit=unit, corners=corners)


def collect_answers(source: Source, kind: AnswerKind, options: Options) -> tuple[str, ...]:
    """The different gold answers of all splits, sorted."""
    found: set[str] = set()
    for split in NAMES:
        try:
            part = find_part(source, split, options)
            _, reading = open_part(part, split, options)
        except DataError:  # a split that is not there, or is broken: its own reading says so
            continue
        if part.share is True:
            continue  # its rows are those of the train split
        for entry in reading.entries():
            if isinstance(entry, Entry):
                try:
                    found.add(str(kind.parse(entry.answer)))
                except ValueError:
                    continue  # a defect of its own split
    return tuple(sorted(found))


def make_row(entry: Entry, kind: AnswerKind, facts: Facts, split: str, template: str | None) -> Row:
    """The entry with its gold answer as the rewards read it. Raises ValueError for one that cannot be read."""
    if entry.answer is None:
        raise ValueError("no gold answer")
    question = entry.question or kind.question
    if not question.strip():
        raise ValueError("no question")
    gold = kind.read(entry, facts)
    values = {name: cell_of(entry.columns, name) for name in facts.options.tags}
    for name, value in values.items():
        if is_missing(value):
            raise ValueError(f"no {name}, which options.tags names")
    context = {"context": [list(turn) for turn in entry.context]} if entry.context else {}
    return Row(
        id=entry.id,
        question=question,
        answer=gold.answer,
        pictures=entry.pictures,
        tags={**entry.tags, **{k: str(v) for k, v in values.items()}, **gold.tags},
        info={
            "split": split,
            "kind": kind.name,
            **context,
            **gold.info,
            **template_columns(template, entry),
        },
        thought=_thought(entry, facts.options.thought),
    )


def _thought(entry: Entry, column: str | None) -> str:
    if column is None:
        return ""
    value = cell_of(entry.columns, column)
    if is_missing(value):
        raise ValueError(f"no {column}, which options.thought names")
    return str(value)
