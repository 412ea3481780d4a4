"""A task with an environment whose samples are rows of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from tests.rollout.test_play import TASK, Count
from vlrft.cli.preparation import sample_check
from vlrft.data import Dataset, Row, RowSamples
from vlrft.rollout.bad_rows import check_gold_answers
from vlrft.rollout.task import LoadedTask
from vlrft.schema import DataError, Sample, Task


@dataclass(frozen=True)
class Options:
    data: str | None = None


def make_sample(row: Row, options: Options) -> Sample:
    return Sample(id=row.id, messages=(), answer=str(row.answer))


def task(gold: Sequence[str]) -> Task:
    load = Dataset(read=lambda source, split, options: [], sample=make_sample, sources={})
    return replace(TASK, options=Options, load=load, gold=lambda sample: gold)


ROW = Row(id="game", question="", answer="plain")


def test_gold_answers_that_need_an_episode_to_be_graded_do_not_stop_a_run() -> None:
    started: list[Sample] = []

    def env(sample: Sample) -> Count:
        started.append(sample)
        return Count(sample)

    samples = RowSamples([ROW], make_sample, Options())
    played = LoadedTask(task=replace(task(["1"]), env=env), samples=samples, rewards=())
    check_gold_answers(played)
    assert not started
    without_environment = replace(played, task=replace(played.task, graders={"strict": ("count",)}))
    with pytest.raises(DataError, match="1 of 1 gold answers cannot be read"):
        check_gold_answers(without_environment)


@pytest.mark.parametrize(
    ("gold", "problem"),
    [(["1", "2", "3"], None), (["1", "2"], "gold answer unreadable: '1 / 2' earns 0.666667")],
)
def test_prepare_plays_the_gold_answer(gold: Sequence[str], problem: str | None) -> None:
    assert sample_check(task(gold), Options())(ROW) == problem


def test_the_failure_of_an_environment_is_a_defect_of_its_row() -> None:
    problem = sample_check(task(["1"]), Options())(replace(ROW, answer="broken"))
    assert problem is not None
    assert "no such game" in problem
