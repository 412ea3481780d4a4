"""Text mathematics: thirteen training and test sets by name, the published prompts, avg@k and
pass@k.

A local folder (`data`) has a table for each set, `gsm8k.jsonl`, or a folder with its splits,
`gsm8k/train.parquet`. A set that has no splits of its own gives one row in ten to the test split,
by the hash of its question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import ClassVar, Literal

from vlrft.data import Dataset, Defect, Row, Source, Within, open_source, qa_rows, read_prompt
from vlrft.metrics import macro, sampled_measures
from vlrft.schema import DataError, Measure, Message, Record, Sample, Task

from .countdown import solve
from .sets import SETS, TextSet, held_out

FIVE = ("aime24", "amc_83", "math500", "minerva", "olympiadbench")
ROLES = ("system", "user", "plain")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which sets, where they are, and which prompt."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    train: str = "gsm8k"
    test: tuple[str, ...] = FIVE
    """Several sets are measured each by itself, and by the mean of their figures."""
    data: str | None = None
    """A folder with the sets' tables; each set's home on the hub unless given."""
    prompt: Literal["clean", "qwen_math", "r1", "none", "r1d", "open_rs", "lighteval", "verl"] = (
        "clean"
    )
    """clean: an answer tag; the others as published (r1 and none: text without a chat template)."""
    levels: tuple[int, int] | None = None
    """Only problems of these difficulties, as MATH's `Level 3` to `Level 5`."""

    def __post_init__(self) -> None:
        unknown = [name for name in (self.train, *self.test) if name not in SETS]
        if unknown or not self.test:
            raise ValueError(f"unknown set {unknown or '()'}; known: {', '.join(SETS)}")


def read(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    """Training rows of one set, test rows of each; a question that comes twice is left out."""
    for name in [options.train] if split == "train" else options.test:
        yield from _without_doubles(_of_set(source, split, name, options))


def homes(options: Options) -> Mapping[str, str]:
    """Where the first set of each split is; the others are opened as they are read."""
    first = {"train": SETS[options.train].hub, "test": SETS[options.test[0]].hub}
    return {split: hub for split, hub in first.items() if hub is not None}


def _of_set(source: Source, split: str, name: str, options: Options) -> Iterator[Row | Defect]:
    """Raises DataError when the set has no such rows, or is not where it should be."""
    known = SETS[name]
    if known.splits and split not in known.splits:
        raise DataError(f"{name} has no {split} rows; use it for {next(iter(known.splits))}")
    own, table, whole = _place(source, split, name, known, options)
    rows = qa_rows(
        own,
        split,
        table=table,
        gold=known.gold,
        question=known.question,
        tags=lambda cells: {"kind": name, "answer": known.kind, **known.tags(cells)},
    )
    by_hash = not known.splits or (whole and len(known.splits) > 1)
    for number, row in enumerate(rows):
        label = f"{name}/{split}/{number}"
        if isinstance(row, Defect):
            yield Defect(id=label, reason=row.reason, detail=row.detail)
        elif options.levels and not _within(row.tags.get("level"), options.levels):
            yield Defect(id=label, reason="another level", intended=True)
        elif not by_hash or held_out(row.question) == (split == "test"):
            yield replace(row, id=label)


def _place(
    source: Source, split: str, name: str, known: TextSet, options: Options
) -> tuple[Source, str, bool]:
    """Where the set is, what its table is called there, and whether that holds all of its splits."""
    if options.data is None:
        if known.hub is None:
            raise DataError(f"{name} is not on the hub; give a folder with it as data=PATH")
        return open_source(known.hub), known.splits.get(split, "train"), False
    if any(n.startswith(f"{name}/") for n in source.names()):
        return Within(source, name), split, False
    stems = {PurePosixPath(n).stem for n in source.names()}
    for own in (name, *known.files):
        if own in stems:
            return source, own, True
    raise DataError(
        f"{source.label}: no table of {name}; expected {name}.jsonl or {name}/{split}.jsonl"
    )


def _within(level: str | None, levels: tuple[int, int]) -> bool:
    digits = "".join(c for c in level or "" if c.isdigit())
    return bool(digits) and levels[0] <= int(digits) <= levels[1]


def _without_doubles(rows: Iterable[Row | Defect]) -> Iterator[Row | Defect]:
    seen: set[str] = set()
    for row in rows:
        if isinstance(row, Row) and row.question in seen:
            yield Defect(id=row.id, reason="duplicate question", intended=True)
            continue
        if isinstance(row, Row):
            seen.add(row.question)
        yield row


def sample(row: Row, options: Options) -> Sample:
    folder = Path(__file__).parent / "prompts"
    roles = [r for r in ROLES if (folder / f"{options.prompt}.{r}.txt").exists()]
    messages = tuple(
        Message(
            role=role,  # type: ignore[arg-type]
            content=(
                read_prompt(__file__, f"{options.prompt}.{role}").replace(
                    "{question}", row.question
                ),
            ),
        )
        for role in roles
    )
    tags = dict(row.tags)
    if options.prompt == "r1":
        tags["opened"] = "<think>"
    elif options.prompt != "clean":
        tags["form"] = "boxed"
    return Sample(id=row.id, messages=messages, answer=row.answer, tags=tags, info=row.info)


def gold(sample: Sample) -> str:
    """The gold answer in the form that the prompt asks for; for Countdown one of the solutions."""
    answer = sample.answer[0] if isinstance(sample.answer, list) else sample.answer
    if isinstance(answer, dict):
        answer = solve(answer["nums"], answer["target"])
    if sample.tags.get("form") == "boxed":
        return f"<think></think>\\boxed{{{answer}}}"
    opened = sample.tags.get("opened", "")
    return f"<think></think><answer>{answer}</answer>".removeprefix(opened)


def measures(records: Sequence[Record], grader: str) -> Mapping[str, Measure]:
    """Of one set accuracy, or avg@k and pass@k; of several the mean of the sets first, then each."""
    sets = dict.fromkeys(r.tags["kind"] for r in records)
    if len(sets) < 2:
        return sampled_measures(records, grader)
    out = {"mean": macro(records, grader, "kind")}
    for name in sets:
        own = sampled_measures([r for r in records if r.tags["kind"] == name], grader)
        out |= {name if key == "accuracy" else f"{name} {key}": m for key, m in own.items()}
    return out


task = Task(
    name="textmath",
    doc="Text mathematics: GSM8K, MATH, DAPO-17k, AIME, AMC, … by name, avg@k and pass@k.",
    options=Options,
    splits=("train", "test"),
    load=Dataset(read=read, sample=sample, homes=homes),
    rewards={"math_answer": 1.0, "countdown": 1.0, "format": 1.0},
    graders={
        "strict": ("math_answer", "countdown"),
        "official": ("math_answer.dr_grpo", "countdown"),
    },
    measures=measures,
    gold=gold,
)
