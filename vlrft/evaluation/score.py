"""Stored outputs -> graded records: each output is matched with the sample that it answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vlrft.data import RowSamples
from vlrft.evaluation.evaluate import EVAL_CHUNK
from vlrft.evaluation.outputs.columns import OutputRow
from vlrft.rollout.task import LoadedTask
from vlrft.schema import Record, Sample, Task
from vlrft.schema.errors import OutputsError
from vlrft.scoring.graders import Graders

LISTED = 10  # rows that a message names


@dataclass(frozen=True, kw_only=True)
class Matched:
    """The samples of the rows, one for each row, and the notes on the match that are printed."""

    samples: tuple[Sample, ...]
    notes: tuple[str, ...] = ()


def match_samples(
    rows: Sequence[OutputRow], loaded: LoadedTask | None, split: str, where: str
) -> Matched:
    """The sample that each row answers: the one with its id; or the one sample whose id ends with it, as `test/12` does where
    other tools write 12; or else a sample made of the row's own gold answer. `where`: the file of the rows, for messages.

    Raises OutputsError, which lists the rows, where rows have neither.
    """
    known = {} if loaded is None else _samples_by_id(loaded, {row.id for row in rows}, split)
    samples, orphans, other_gold = list[Sample](), list[str](), list[str]()
    for row in rows:
        sample = known.get(row.id)
        if sample is None and row.answer is None:
            orphans.append(f"{row.place}: no sample {row.id!r} in the data, and no gold answer")
            continue
        if sample is None:
            sample = Sample(id=row.id, messages=(), answer=row.answer, tags=row.tags, info=row.info)
        elif row.answer is not None and _text(row.answer) != _text(sample.answer):
            other_gold.append(
                f"{row.place} has {row.answer!r:.60}, {sample.id} {sample.answer!r:.60}"
            )
        samples.append(sample)
    if orphans:
        more = [f"… and {len(orphans) - LISTED} more"] if len(orphans) > LISTED else []
        head = f'{where}: {len(orphans)} of {len(rows)} rows cannot be graded; give --data, or their gold answers as "answer"'
        raise OutputsError("\n  ".join([head, *orphans[:LISTED], *more]))
    notes = list[str]()
    answered = {sample.id for sample in samples}
    if loaded is not None and len(answered) < len(loaded.samples):
        absent = sum(sample.id not in answered for sample in without_images(loaded))
        notes.append(f"{absent} of {len(loaded.samples)} samples have no output")
    if other_gold:
        notes.append(
            f"{len(other_gold)} of {len(rows)} gold answers of the file are written otherwise in the data, such as "
            f"{other_gold[0]}; those of the data are used, so check that ids mean the same samples"
        )
    return Matched(samples=tuple(samples), notes=tuple(notes))


def _samples_by_id(loaded: LoadedTask, wanted: set[str], split: str) -> dict[str, Sample]:
    """The samples that these ids name: their own ids, `SPLIT/ID`, or the only one that ends with `/ID`."""
    exact, of_split, ends = dict[str, Sample](), dict[str, Sample](), dict[str, list[Sample]]()
    for sample in without_images(loaded):
        end = sample.id.rpartition("/")[2]
        if sample.id in wanted:
            exact[sample.id] = sample
        if sample.id == f"{split}/{end}":
            of_split[end] = sample
        if end in wanted:
            ends.setdefault(end, []).append(sample)
    single = {end: samples[0] for end, samples in ends.items() if len(samples) == 1}
    return {**single, **of_split, **exact}  # an id's own sample comes first


def without_images(loaded: LoadedTask) -> Iterable[Sample]:
    """The samples, without opening their images where that is possible."""
    samples = loaded.samples
    return samples.without_images() if isinstance(samples, RowSamples) else samples


def grade_outputs(
    task: Task, rows: Sequence[OutputRow], samples: Sequence[Sample], *, untagged: bool = False
) -> Iterator[Record]:
    """A record for each row. `untagged`: the whole output, thinking aside, is the answer where it has no
    answer tag."""
    graders = Graders.of(task)
    for row, sample in zip(rows, samples, strict=True):
        output = tag_answer(row.output) if untagged else row.output
        yield graders.record(sample, output, truncated=row.truncated)


def tag_answer(output: str) -> str:
    """The output with the text after its thinking in an answer tag; as it is where it has one already."""
    thinking, end, answer = output.rpartition("</think>")
    if "<answer>" in answer:
        return output
    return f"{thinking}{end}<answer>{answer.strip()}</answer>"


def complete(loaded: LoadedTask, records: Sequence[Record]) -> Sequence[Record]:
    """The records completed as in `vlrft eval`, some samples at a time, so that few images are open at once."""
    if loaded.complete is None:
        return records
    records_of: dict[str, list[int]] = {}  # sample id -> indices of its records
    for k, record in enumerate(records):
        records_of.setdefault(record.id, []).append(k)
    completed = list(records)
    answered = [k for k, sample in enumerate(without_images(loaded)) if sample.id in records_of]
    for start in range(0, len(answered), EVAL_CHUNK):
        chunk = [loaded.samples[k] for k in answered[start : start + EVAL_CHUNK]]
        indices = [k for sample in chunk for k in records_of[sample.id]]
        parts = loaded.complete_records(chunk, [records[k] for k in indices])
        for k, record in zip(indices, parts, strict=True):
            completed[k] = record
    return completed


def _text(answer: object) -> str:
    """A gold answer for comparison: case, spaces and tags aside."""
    text = str(answer).replace("<answer>", "").replace("</answer>", "")
    return "".join(text.casefold().split())
