"""Answer -> score of `count`."""

from __future__ import annotations

import pytest
from vlrft.rewards.count import count

from vlrft.plugins.find import find_reward
from vlrft.schema import DataError
from vlrft.testing.small_policies import sample

THREE = sample("three", 3, answer="count")


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("<answer>3</answer>", 1.0),
        ("<think>1, 2, 3</think> <answer> 3 </answer>", 1.0),
        ("<answer>4</answer>", 0.0),
        ("<answer>3.0</answer>", 0.0),
        ("<answer>3 or 4</answer>", 0.0),
        ("<answer>three</answer>", 0.0),
        ("<answer>３</answer>", 0.0),
        ("<answer>٣</answer>", 0.0),
        ("3", 0.0),
        ("<answer>3", 0.0),
        ("<answer>2</answer><answer>3</answer>", 0.0),
        ("<answer>" + "3" * 100_000 + "</answer>", 0.0),
        ("3" * 100_000, 0.0),
        ("", 0.0),
    ],
)
def test_only_the_exact_number_is_right(completion: str, score: float) -> None:
    assert count(completion, THREE) == score


@pytest.mark.parametrize(
    ("completion", "in_training", "in_evaluation"),
    [
        ("<think>a</think><answer>3</answer>", 1.0, 1.0),
        ("<think>There are 3 balls.</think><answer>4</answer>", 1.0, 0.0),  # `4<` is not read
        ("<think>a</think><answer> 4 </answer>", 0.0, 0.0),
        ("there are 3.", 1.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_r1v_trains_on_the_whole_completion_and_evaluates_the_tag(
    completion: str, in_training: float, in_evaluation: float
) -> None:
    train, evaluate = find_reward("count.r1v"), find_reward("count.r1v_eval")
    assert (train(completion, THREE), evaluate(completion, THREE)) == (in_training, in_evaluation)
    assert train("3", sample("letter", "3", answer="choice")) is None


def test_a_gold_answer_may_be_text() -> None:
    assert count("<answer>12</answer>", sample("twelve", "12")) == 1.0


def test_other_kinds_of_gold_answers_do_not_apply() -> None:
    assert count("<answer>3</answer>", sample("letter", "A", answer="choice")) is None


@pytest.mark.parametrize("gold", [None, "", "many", 3.5, -1, True, (3,)])
def test_an_unreadable_gold_answer_raises(gold: object) -> None:
    with pytest.raises(DataError, match="sample gold: gold answer"):
        count("<answer>3</answer>", sample("gold", gold))
