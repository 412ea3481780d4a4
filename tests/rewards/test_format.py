"""Completion -> score of `format`."""

from __future__ import annotations

import pytest
from vlrft.rewards.format import format as form

from vlrft.testing.small_policies import sample


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("<answer>7</answer>", 1.0),
        ("<answer>nonsense</answer>", 1.0),
        (" <answer>7</answer>\n", 1.0),
        ("<think>hm</think><answer>7</answer>", 1.0),
        ("<think>hm</think>\n<answer>7</answer>", 1.0),
        ("<think></think><answer>7</answer>", 1.0),
        ("It is <answer>7</answer>", 0.0),
        ("<answer>7</answer>.", 0.0),
        ("well <think>hm</think><answer>7</answer>", 0.0),
        ("<think>hm</think> so <answer>7</answer>", 0.0),
        ("<think>hm<answer>7</answer>", 0.0),
        ("hm</think><answer>7</answer>", 0.0),
        ("<think>a</think><think>b</think><answer>7</answer>", 0.0),
        ("<think><answer>6</answer></think><answer>7</answer>", 0.0),
        ("<answer><think>hm</think>7</answer>", 0.0),
        ("<answer>7<think></answer>", 0.0),
        ("<answer>7</answer><answer>7</answer>", 0.0),
        ("<answer></answer>", 0.0),
        ("<answer>7", 0.0),
        ("7", 0.0),
        ("", 0.0),
        ("<think>" * 20_000, 0.0),
        ("<answer>" + "7" * 100_000 + "</answer>", 0.0),
    ],
)
def test_the_form_of_a_completion(completion: str, score: float) -> None:
    assert form(completion, sample("any")) == score


@pytest.mark.parametrize(
    ("completion", "thinking", "alone"),
    [
        ("<think>hm</think>\\boxed{7}", 1.0, 1.0),
        ("<think>hm</think> So it is \\boxed{7}.", 1.0, 1.0),
        ("\\boxed{7}", 0.0, 1.0),
        ("So it is \\boxed{7}.", 0.0, 1.0),
        ("hm</think>\\boxed{7}", 0.0, 1.0),  # of a chat template that opens the thinking
        ("<think>\\boxed{7}", 0.0, 1.0),
        ("<think>\\boxed{7}</think> 7", 0.0, 0.0),
        ("<think>a</think><think>b</think>\\boxed{7}", 0.0, 0.0),
        ("<think>hm</think>\\boxed{}", 0.0, 0.0),
        ("<think>hm</think>7", 0.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_a_box_with_thinking_and_alone(completion: str, thinking: float, alone: float) -> None:
    assert form(completion, sample("any", form="boxed")) == thinking
    assert form(completion, sample("any", form="box")) == alone


def test_a_completion_continues_the_thinking_that_the_prompt_opened() -> None:
    opened = sample("any", opened="<think>")
    assert form("hm</think> <answer>7</answer>", opened) == 1.0
    assert form("<think>hm</think> <answer>7</answer>", opened) == 0.0
    assert form("<answer>7</answer>", opened) == 0.0
