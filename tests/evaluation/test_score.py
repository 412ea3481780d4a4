"""Stored outputs and the samples that they answer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from vlrft.evaluation.outputs.columns import OutputRow
from vlrft.evaluation.score import match_samples, tag_answer
from vlrft.plugins.find import find_task
from vlrft.rollout.task import LoadedTask
from vlrft.schema import Sample
from vlrft.schema.errors import OutputsError


def loaded(*ids: str) -> LoadedTask:
    samples = [Sample(id=name, messages=(), answer=str(k)) for k, name in enumerate(ids)]
    return LoadedTask(task=find_task("geoqa"), samples=samples, rewards=())


def rows(*ids: str, answer: object = None) -> list[OutputRow]:
    return [OutputRow(number=k, id=i, output="", answer=answer) for k, i in enumerate(ids)]


def matched(outputs: Sequence[OutputRow], *ids: str) -> list[str]:
    return [s.id for s in match_samples(outputs, loaded(*ids), "test", "o.jsonl").samples]


def test_an_id_is_the_samples_own_or_the_end_of_one_alone() -> None:
    assert matched(rows("test/1", "1"), "test/0", "test/1") == ["test/1", "test/1"]
    assert matched(rows("7"), "cvbench/7", "cvbench/8") == ["cvbench/7"]
    assert matched(rows("7"), "7", "test/7", "a/7") == ["7"]
    assert matched(rows("7"), "test/7", "a/7") == ["test/7"]
    with pytest.raises(OutputsError, match=r"row 1: no sample '7' in the data, and no gold answer"):
        matched(rows("7"), "a/7", "b/7")


def test_every_row_without_a_sample_is_listed() -> None:
    with pytest.raises(OutputsError) as error:
        matched(rows(*"abcdefghijklm"), "c")
    lines = str(error.value).splitlines()
    assert lines[0].startswith("o.jsonl: 12 of 13 rows cannot be graded; give --data")
    assert lines[1:3] == [
        f"  row {k}: no sample {n!r} in the data, and no gold answer"
        for k, n in ((1, "a"), (2, "b"))
    ]
    assert lines[-1] == "  … and 2 more"


def test_other_gold_answers_than_those_of_the_data_are_told() -> None:
    task = loaded("test/0", "test/1", "test/2")
    notes = match_samples(rows("0", "1", answer="<answer> 0 </answer>"), task, "test", "o").notes
    assert notes == (
        "1 of 3 samples have no output",
        "1 of 2 gold answers of the file are written otherwise in the data, such as row 2 has '<answer> 0 </answer>', "
        "test/1 '1'; those of the data are used, so check that ids mean the same samples",
    )


def test_the_text_after_the_thinking_is_tagged() -> None:
    assert tag_answer(" B ") == "<answer>B</answer>"
    assert tag_answer("<think>A?</think>\nB") == "<think>A?</think><answer>B</answer>"
