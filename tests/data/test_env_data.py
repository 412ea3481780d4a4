"""A task with an environment whose samples are rows of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from tests.rollout.test_play import TASK, Count
from vlrft.cli.commands.data import gold_check
from vlrft.data import Dataset, Row, Samples
from vlrft.rollout.task import LoadedTask
from vlrft.schema import DataError, Sample, Task


@dataclass(frozen=True)
class Options:
    data: str | None = None


def made(row: Row, options: Options) -> Sample:
    return Sample(id=row.id, messages=(), answer=str(row.answer))


def task(gold: Sequence[str]) -> Task:
    load = Dataset(read=lambda source, split, options: [], sample=made, homes={})
    return replace(TASK, options=Options, load=load, gold=lambda sample: gold)


ROW = Row(id="game", question="", answer="plain")


def test_golds_that_only_a_play_can_grade_do_not_keep_a_run_from_beginning() -> None:
    begun: list[Sample] = []

    def env(sample: Sample) -> Count:
        begun.append(sample)
        return Count(sample)

    samples = Samples([ROW], made, Options())
    played = LoadedTask(task=replace(task(["1"]), env=env), samples=samples, rewards=())
    played.refuse_unreadable_gold_answers()
    assert not begun
    read = replace(played, task=replace(played.task, graders={"strict": ("count",)}))
    with pytest.raises(DataError, match="1 of 1 gold answers cannot be read"):
        read.refuse_unreadable_gold_answers()


@pytest.mark.parametrize(
    ("gold", "wrong"), [(["1", "2", "3"], None), (["1", "2"], "'1 / 2' earns 0.666667")]
)
def test_preparing_plays_the_gold(gold: Sequence[str], wrong: str | None) -> None:
    assert gold_check(task(gold), Options())(ROW) == wrong


def test_an_environment_that_fails_on_a_row_is_its_defect() -> None:
    found = gold_check(task(["1"]), Options())(replace(ROW, answer="broken"))
    assert found is not None
    assert "no such game" in found
