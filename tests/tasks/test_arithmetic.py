"""Calculations of two numbers: questions and gold answers, splits without a number pair in common, and the strict grader."""

from __future__ import annotations

import re

import pytest
from pydantic import TypeAdapter, ValidationError
from vlrft.tasks.arithmetic import task
from vlrft.tasks.arithmetic.lines import OPERATIONS, SOLVED
from vlrft.tasks.arithmetic.options import Options

from tests.tasks.loaded import assert_gold_earns_all
from vlrft.schema import Record, Sample
from vlrft.scoring.graders import Graders
from vlrft.testing.task import TaskConformance

QUESTION = re.compile(r"(\d+) and (\d+) make (\d+):")


def text(sample: Sample) -> str:
    (message,) = sample.messages
    assert message.role == "plain"
    (part,) = message.content
    assert isinstance(part, str)
    return part


def asked(sample: Sample) -> tuple[int, int, int]:
    """The numbers of the last line."""
    found = QUESTION.fullmatch(text(sample).rpartition("\n")[2])
    assert found is not None
    larger, smaller, result = map(int, found.groups())
    return larger, smaller, result


class TestTest(TaskConformance):
    name = "arithmetic"
    split = "test"


def test_a_prompt_is_solved_lines_and_a_question_without_its_answer() -> None:
    sample = task.load("train", Options(shots=2))[0]
    *solved, question = text(sample).split("\n")
    assert solved == ["9 and 6 make 15: 9 + 6", "7 and 4 make 28: 7 * 4"]
    larger, smaller, result = asked(sample)
    assert sample.answer == {"nums": [larger, smaller], "target": result}
    assert question.endswith(":")
    assert text(task.load("train", Options(shots=0))[0]) == question


def test_no_two_numbers_are_together_in_both_splits_or_in_a_solved_line() -> None:
    for largest in (10, 30, 50):
        options = Options(largest=largest, shots=6)
        pairs = [
            {frozenset(asked(s)[:2]) for s in task.load(split, options)}
            for split in ("train", "test")
        ]
        assert pairs[0]
        assert pairs[1]
        assert not pairs[0] & pairs[1]
        assert not {frozenset(line.numbers) for line in SOLVED} & (pairs[0] | pairs[1])


def test_a_pair_of_numbers_keeps_its_split_with_larger_numbers() -> None:
    small, large = (
        {frozenset(asked(s)[:2]) for s in task.load("test", Options(largest=n))} for n in (12, 40)
    )
    assert small < large


def test_every_pair_is_asked_with_each_operation_once_in_a_fixed_mixed_order() -> None:
    samples = list(task.load("test", Options()))
    assert len(samples) == 228
    assert len({text(s) for s in samples}) == 228
    assert {s.tags["kind"] for s in samples[:12]} == {"sum", "difference", "product"}
    assert [s.answer for s in samples] == [s.answer for s in task.load("test", Options())]
    assert len(task.load("train", Options())) == 972


def test_gold_answers_earn_full_marks_and_name_one_calculation() -> None:
    samples = list(task.load("test", Options()))
    assert_gold_earns_all("arithmetic", samples)
    for sample in samples:
        larger, smaller, result = asked(sample)
        right = [s for s, f in OPERATIONS.items() if f(larger, smaller) == result]
        assert [f" {larger} {s} {smaller}" for s in right] == [task.gold(sample)]


@pytest.mark.parametrize(
    ("completion", "grade"),
    [
        (" 27 * 18", 1.0),
        ("18*27.", 1.0),
        (" 27 * 18 = 486", 1.0),
        (" 27 * 18 = 485", 0.0),
        (" 27 + 18", 0.0),
        (" 486", 0.0),
        (" 486 * 1", 0.0),
        (" 27 * 18 + 0", 0.0),
        (" 27 * 18\n5 and 3 make 8: 5 + 3", 0.0),  # it goes on
        (" so 27 * 18", 0.0),
        ("<answer>27 * 18</answer>", 0.0),
        (" 27 x 18", 0.0),
        ("", 0.0),
    ],
)
def test_the_strict_grade_of_a_completion(completion: str, grade: float) -> None:
    sample = Sample(id="s", messages=(), answer={"nums": [27, 18], "target": 486}, tags={"answer": "countdown"})  # fmt: skip
    assert Graders.of(task).grade("strict", completion, sample) == grade


def test_metrics_are_of_all_questions_and_of_each_operation() -> None:
    records = [
        Record(id=str(k), output="", grades={"strict": grade}, tags={"kind": kind})
        for k, (kind, grade) in enumerate([("sum", 1.0), ("sum", 0.0), ("product", 1.0)])
    ]
    assert task.metrics is not None
    metrics = task.metrics(records, "strict")
    assert {name: m.values for name, m in metrics.items()} == {
        "accuracy": (1.0, 0.0, 1.0),
        "sum": (1.0, 0.0),
        "product": (1.0,),
    }
    several = task.metrics([*records, *records], "strict")
    assert {"avg@2", "pass@2"} <= set(several)


@pytest.mark.parametrize("options", [{"largest": 9}, {"shots": 7}, {"shots": -1}, {"train": 3}])
def test_options_out_of_range_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Options).validate_python(options)
