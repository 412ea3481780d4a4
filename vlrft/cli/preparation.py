"""One call of `vlrft data prepare`: the rows of a task's splits, checked, and the lines that report on them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from vlrft.cli.prompt_limit import PromptLimit
from vlrft.cli.synthetic_rows import SyntheticRows
from vlrft.cli.unread_kinds import UnreadKinds
from vlrft.data import Dataset, PreparedSplit, Row, Source, notes_of, prepare
from vlrft.data.claim import (
    is_prepared,
    refuse_other_prompts,
    refuse_other_settings,
    refuse_other_thoughts,
)
from vlrft.data.row_samples import find_misplaced_images
from vlrft.data.spelled_tokens import SpelledTokens
from vlrft.data.synthetic import refuse_other_rows
from vlrft.data.thoughts import Thoughts
from vlrft.envs import build_host
from vlrft.grading.metrics import reaches_threshold
from vlrft.rollout.gold import grade_gold_answer
from vlrft.schema import DataError, Sample, Task
from vlrft.schema.pluralize import pluralize
from vlrft.scoring.graders import STRICT, Graders


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """The task, and all that decides its rows and which of them are kept."""

    task: Task
    options: Any
    out: Path
    limit: PromptLimit | None
    synthetic: SyntheticRows | None
    thoughts: Thoughts | None
    """Of `--thoughts`; synthetic rows bring their own."""

    def is_done(self, split: str) -> bool:
        """Whether an earlier call prepared the split. Raises ConfigError where it was with other rows, thoughts or limits."""
        if not is_prepared(self.out, split):
            return False
        refuse_other_settings(self.out, split, self.task.name, self._settings())
        refuse_other_rows(
            self.out, split, None if self.synthetic is None else self.synthetic.note()
        )
        refuse_other_thoughts(self.out, split, self._digest())
        if self.limit is not None:
            refuse_other_prompts(self.out, split, self.limit.facts())
        return True

    def prepare(self, split: str, *, restart: bool) -> list[str]:
        """Prepares the split, and returns the lines that report on it. Raises DataError if no row can be used."""
        assert isinstance(self.task.load, Dataset)
        source = (self.synthetic or self.task.load).source(split, self.options)
        rows = self.task.load.rows(source, split, self.options, self.task.name)
        thoughts = self.synthetic.thoughts(split) if self.synthetic else self.thoughts
        if thoughts is not None:
            rows = thoughts.add_to(rows)
        spelled, unread = SpelledTokens(), UnreadKinds()
        rows = spelled.watch(rows)
        if not self.task.graders[STRICT]:
            rows = unread.watch(rows)
        digest = self._digest()
        made = self.synthetic.facts() if self.synthetic else ""
        prepared = prepare(
            rows,
            task=self.task.name,
            split=split,
            where=source.label,
            out=self.out,
            check_sample=sample_check(self.task, self.options, self.limit),
            restart=restart,
            options=f"{self.options!r}{made}{digest or ''}",
            explain=partial(self.task.load.explain, source, split, self.options),
            notes=notes_of(source),
            prompts={} if self.limit is None else self.limit.facts(),
            thoughts=digest,
            settings=self._settings(),
            frames=self.task.load.frame_rule(self.options),
        )
        notes = (spelled.note, unread.note, "" if thoughts is None else thoughts.note)
        return [*self._counts(prepared), *_notes(source, *notes)]

    def _settings(self) -> str:
        """A hash of the options, in which the place of the data is one."""
        return hashlib.sha256(repr(self.options).encode(errors="replace")).hexdigest()

    def _digest(self) -> str | None:
        return None if self.thoughts is None else self.thoughts.digest()

    def _counts(self, prepared: PreparedSplit) -> Iterator[str]:
        again = f", {prepared.resumed} of them by an earlier call" if prepared.resumed else ""
        yield f"{prepared.split}: {pluralize(prepared.rows, 'row')}{again}"
        for reason, count in prepared.defects.items():
            listed = self.out / f"{prepared.split}.defects.jsonl"
            yield f"  {count} left out: {reason} (listed in {listed})"


def _notes(source: Source, *of_rows: str) -> list[str]:
    return [f"  {note}" for note in (*dict.fromkeys(notes_of(source)), *filter(None, of_rows))]


def sample_check(
    task: Task, options: object, limit: PromptLimit | None = None
) -> Callable[[Row], str | None]:
    """Checks a row: None if its images have their places, the strict grader, where there is one, gives its gold answer full
    marks, and its prompt is within the limit, otherwise `reason: detail`."""
    graders = Graders.of(task) if task.graders[STRICT] else None  # rewards may be named later
    load, host = task.load, build_host(task, workers=0, time_limit=None, reference="")
    assert isinstance(load, Dataset)

    def check(row: Row) -> str | None:
        sample = load.sample(row, options)
        problem = check_answer(row, sample)
        return problem if problem or limit is None else limit.find_problem(row, sample)

    def check_answer(row: Row, sample: Sample) -> str | None:
        if problem := find_misplaced_images(row, sample):
            return f"image places: {problem}"
        if graders is None:
            return None
        try:
            turns, grade = grade_gold_answer(task, graders, sample, host)
        except DataError as e:
            return f"gold answer unreadable: {e}"
        if reaches_threshold(grade, 1.0):
            return None
        return f"gold answer unreadable: {' / '.join(turns)!r} earns {grade:g}"

    return check
