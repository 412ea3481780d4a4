"""Conformance of a task pack (`vlrft.schema.Task`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from vlrft.config import TaskConfig
from vlrft.evaluation.evaluate import MetricValue
from vlrft.grading.metrics import reaches_threshold
from vlrft.rollout.gold import gold_text, grade_gold_answer
from vlrft.rollout.task import LoadedTask, load_task
from vlrft.schema import IMAGE, Metric, Sample
from vlrft.scoring.graders import STRICT


class TaskConformance:
    """Inherit it, name the subclass `Test…`, and set `name`; one instance tests one split."""

    name: str
    """The task as `task.name` of a config names it: a pack, `package.module:task` or `./file.py:task`."""
    split: str
    limit: int = 16
    """The first so many samples of the split are tested."""
    has_headline: bool = True

    def options(self) -> Mapping[str, Any]:
        """Options of the task."""
        return {}

    @cached_property
    def loaded(self) -> LoadedTask:
        return load_task(TaskConfig(name=self.name, options=dict(self.options())), self.split)

    @property
    def samples(self) -> list[Sample]:
        return list(self.loaded.head(self.limit))

    def test_ids_are_distinct(self) -> None:
        ids = [sample.id for sample in self.samples]
        assert len(set(ids)) == len(ids) > 0

    def test_every_image_slot_has_an_image(self) -> None:
        for sample in self.samples:
            slots = sum(part is IMAGE for message in sample.messages for part in message.content)
            assert slots == len(sample.images), sample.id

    def test_a_second_load_gives_the_same_samples(self) -> None:
        for one, other in zip(self.samples, type(self)().samples, strict=True):
            assert (one.id, one.messages, one.answer, one.tags) == (
                other.id,
                other.messages,
                other.answer,
                other.tags,
            )
            assert [i.tobytes() for i in one.images] == [i.tobytes() for i in other.images]

    def test_the_gold_answer_earns_full_marks(self) -> None:
        task, graders, host = self.loaded.task, self.loaded.graders, self.loaded.host
        for sample in self.samples:
            _, grade = grade_gold_answer(task, graders, sample, host)
            assert reaches_threshold(grade, 1.0), f"{sample.id}: the strict grader gives {grade}"

    def test_an_empty_answer_earns_no_full_marks(self) -> None:
        nothing = dict.fromkeys(self.loaded.task.env_scores, 0.0)
        for sample in self.samples:
            assert self.loaded.graders.grade(STRICT, "", sample, nothing) < 1.0, sample.id

    def test_metrics_of_gold_answers_can_be_computed(self) -> None:
        task = self.loaded.task
        if task.metrics is None or task.env is not None:
            return
        records = [
            self.loaded.graders.record(sample, gold_text(task, sample)) for sample in self.samples
        ]
        complete = self.loaded.complete_records(self.samples, records)
        metrics = task.metrics(complete, STRICT)
        assert all(isinstance(metric, Metric) for metric in metrics.values())
        if self.has_headline:
            headline = MetricValue.of(next(iter(metrics.values())))
            assert headline.n > 0
