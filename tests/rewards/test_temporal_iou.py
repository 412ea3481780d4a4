"""Answer -> score of `temporal_iou`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from vlrft.rewards.temporal_iou import temporal_iou, time_r1, time_r1_eval, time_r1_scaled

from vlrft.schema import DataError
from vlrft.testing.small_policies import sample

TEN = sample("clip", (10, 20.0), answer="segment")


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("10, 20", 1.0),
        ("10,20", 1.0),
        ("10-20", 1.0),
        ("10 - 20", 1.0),
        ("10 to 20", 1.0),
        ("10.0  to\t20", 1.0),
        ("[10, 20]", 1.0),
        (" [ 10.0 , 20.00 ] ", 1.0),
        ("010, 20", 1.0),
        ("10, 15", 0.5),
        ("15-25", 5 / 15),
        ("0-40", 10 / 40),
        ("12, 13", 1 / 10),
        ("19.5, 20.5", 0.5 / 10.5),
        ("20, 30", 0.0),
        ("0, 10", 0.0),
        ("30, 40", 0.0),
        ("0, 999999999", 10 / 999999999),
        ("20, 10", 0.0),
        ("15, 15", 0.0),
        ("15.0, 15." + "0" * 15 + "1", 0.0),
        ("-10, 20", 0.0),
        ("10, -20", 0.0),
        ("10--20", 0.0),
        ("10, 20, 10, 20", 0.0),
        ("10, 20 or 1, 2", 0.0),
        ("[10, 20], [10, 20]", 0.0),
        ("[10, 20", 0.0),
        ("10, 20]", 0.0),
        ("[[10, 20]]", 0.0),
        ("[10-20]", 0.0),
        ("(10, 20)", 0.0),
        ("10 20", 0.0),
        ("10to20", 0.0),
        ("10 TO 20", 0.0),
        ("[10 to 20]", 0.0),
        ("10, to 20", 0.0),
        ("10", 0.0),
        ("from 10 to 20", 0.0),
        ("10s, 20s", 0.0),
        ("0:10, 0:20", 0.0),
        ("1e1, 2e1", 0.0),
        ("10, inf", 0.0),
        ("nan, nan", 0.0),
        ("10, 10**10**10", 0.0),
        ("10, 1000000000", 0.0),
        ("１０, ２０", 0.0),
        ("١٠, 20", 0.0),
        ("10–20", 0.0),
        ("[" * 1000, 0.0),
        ("[" + " " * 1500, 0.0),
        ("10," + " " * 100_000 + "20", 0.0),
        ("1" * 1900 + "-", 0.0),
        ("", 0.0),
    ],
)
def test_the_overlap_of_segments(answer: str, score: float) -> None:
    assert temporal_iou(f"<answer>{answer}</answer>", TEN) == pytest.approx(score, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    "completion",
    [
        "",
        "10, 20",
        "<answer>10, 20",
        "<think><answer>10, 20</answer></think>",
        "<answer>10, 20</answer> <answer>10, 20</answer>",
        "<answer>" * 20_000,
        "[10, 20]" * 20_000,
        "\ud800\x00\u202e" * 30_000,
    ],
)
def test_a_completion_without_an_answer_earns_nothing(completion: str) -> None:
    assert temporal_iou(completion, TEN) == 0.0


@pytest.mark.parametrize("gold", [(0.1, 0.1 + 0.2), (1 / 3, 2 / 3), [0, 7], (1e-4, 5)])
def test_the_gold_answer_as_python_writes_it_has_full_marks(gold: tuple[float, float]) -> None:
    for answer in (f"{gold[0]}, {gold[1]}", f"[{gold[0]}, {gold[1]}]", f"{gold[0]}-{gold[1]}"):
        assert temporal_iou(f"<answer>{answer}</answer>", sample("any", gold)) == 1.0


def test_other_kinds_of_gold_answers_do_not_apply() -> None:
    assert temporal_iou("<answer>1, 2</answer>", sample("two", 2, answer="count")) is None


@pytest.mark.parametrize(
    "gold",
    [
        None,
        "",
        "12",
        "1, 2",
        12,
        (1,),
        (1, 2, 3),
        (1, 2, "s"),
        (2, 1),
        (1, 1),
        (-1, 2),
        (-(10**400), 2),
        (0, float("nan")),
        (0, float("inf")),
        (0, 10**9),
        (0, 10**400),
        (False, True),
        ("1", "2"),
    ],
)
def test_an_unreadable_gold_answer_raises(gold: object) -> None:
    with pytest.raises(DataError, match=r"sample gold: gold answer .* 0 <= start < end"):
        temporal_iou("<answer>1, 2</answer>", sample("gold", gold))


@pytest.mark.parametrize(
    ("completion", "trained", "evaluated"),
    [
        ("<answer>10 to 20</answer>", 1.0, 1.0),
        ("<answer>10 and 15.0</answer>", 0.5, 0.5),
        ("<answer>1 to 2, no: from 10 to 15 seconds</answer>", 0.5, 0.5),
        ("<answer>10 TO 15</answer>", 0.5, 0.0),
        ("10 to 15", 0.0, 0.5),
        ("<answer>10 to 20</answer> or 10 to 15", 1.0, 0.5),
        ("<answer>10 to 20</answer><answer>10 to 15</answer>", 0.5, 0.5),
        ("<think><answer>10 to 15</answer></think>", 0.5, 0.5),
        ("<answer>10, 20</answer>", 0.0, 0.0),
        ("<answer>10to20</answer>", 0.0, 0.0),
        ("<answer>20 to 10</answer>", 0.0, 0.0),
        ("<answer>1.10. to 15</answer>", 0.5, 0.5),
        ("<answer>" + "9" * 400 + " to " + "9" * 400 + "</answer>", 0.0, 0.0),
        ("1" * 100_000, 0.0, 0.0),
        ("<answer>" * 20_000 + "1 to " * 20_000, 0.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_the_released_graders_of_time_r1(completion: str, trained: float, evaluated: float) -> None:
    assert time_r1(completion, TEN) == pytest.approx(trained, rel=1e-12)
    assert time_r1_eval(completion, TEN) == pytest.approx(evaluated, rel=1e-12)


def test_the_scaled_reward_falls_with_the_distance_of_both_ends() -> None:
    timed = replace(TEN, info={"duration": 40.0})
    completion = "<answer>12 to 24</answer>"
    expected = (8 / 14) * (1 - 2 / 40) * (1 - 4 / 40)
    assert time_r1_scaled(completion, timed) == pytest.approx(expected, rel=1e-12)
    assert time_r1_scaled("no tag", timed) == 0.0
    with pytest.raises(DataError, match=r"sample clip: .* needs the video's duration"):
        time_r1_scaled(completion, TEN)


def test_the_released_graders_apply_to_segments_only() -> None:
    two = sample("two", 2, answer="count")
    assert [grade("1 to 2", two) for grade in (time_r1, time_r1_eval, time_r1_scaled)] == [None] * 3
