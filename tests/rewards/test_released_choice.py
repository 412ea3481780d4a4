"""VisualThinker-R1-Zero's graders of an option, with the defects that were measured."""

from __future__ import annotations

import pytest
from vlrft.rewards._released_choice import tagged_line
from vlrft.rewards.choice import choice, cvbench, visualthinker

from vlrft.testing.small_policies import sample

pytest.importorskip("math_verify")

ABOVE = sample("above", "A", options="above\nbelow")
CASE = sample("case", "B", options="chair\nbookcase")
NUMBER = sample("number", "B", options="1\n2\n3")
LEFT = sample("left", "left", options="left\nright")


@pytest.mark.parametrize(
    ("asked", "answer", "bench", "training", "strict"),
    [
        (ABOVE, "(A)", 1, 1, 1),
        (ABOVE, "a", 1, 0, 1),
        (ABOVE, "above", 1, 0, 1),
        (ABOVE, "Above", 0, 0, 1),
        (CASE, "the bookcase (highlighted by a red box)", 0, 0, 0),  # read as letter a
        (CASE, "the chair, or B", 1, 1, 0),
        (NUMBER, "2", 1, 0, 1),
        (LEFT, "left", 1, 1, 1),
        (LEFT, "left.", 1, 0, 0),
        (LEFT, "Left", 0, 0, 1),
        (LEFT, "", 0, 0, 0),
    ],
)
def test_strict_and_released_scores(
    asked: object, answer: str, bench: float, training: float, strict: float
) -> None:
    text = f"<think>x</think> <answer>{answer}</answer>"
    assert cvbench(text, asked) == bench  # type: ignore[arg-type]
    assert visualthinker(text, asked) == training  # type: ignore[arg-type]
    assert choice(text, asked) == strict  # type: ignore[arg-type]


def test_without_a_tag_prose_is_searched() -> None:
    assert cvbench("a plain guess", ABOVE) == 1.0
    assert visualthinker("It is (A) I think", ABOVE) == 1.0


@pytest.mark.parametrize(
    ("answer", "training"),
    [
        ("B A", 0.0),  # the space is matched with B, and nothing is left before A
        ("B  A", 1.0),
        ("B, A", 1.0),
        ("A B", 1.0),
        ("[B] (A)", 1.0),
        ("(A)(B)", 0.0),
        ("A.", 0.0),
        ("I", 0.0),
    ],
)
def test_the_last_separate_letter_is_found_as_by_the_released_pattern(
    answer: str, training: float
) -> None:
    assert visualthinker(f"<answer>{answer}</answer>", ABOVE) == training


@pytest.mark.parametrize(
    ("gold", "text", "training"),
    [
        ("3", "There are 3 chairs. </think>\n<answer>none</answer>", 0.0),
        ("3", "There are 3 chairs. </think>\n<answer>3</answer>", 1.0),
        ("3", "<answer> 3 </answer>", 1.0),
        (" 3 ", "<answer>3</answer>", 1.0),
        ("about 3 chairs", "There are 3 chairs. </think>\n<answer>four</answer>", 1.0),
    ],
)
def test_math_verify_gets_the_gold_answer_in_its_tag(gold: str, text: str, training: float) -> None:
    """As the authors' data have it: a number directly after a tag is read on neither side."""
    assert visualthinker(text, sample("count", gold, answer="choice")) == training


def test_cv_bench_reads_the_whole_output_where_the_tag_is_empty() -> None:
    assert cvbench("It is (A). <answer></answer>", ABOVE) == 1.0
    assert cvbench("It is (B). <answer> </answer>", ABOVE) == 0.0


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("<answer>\n B \n</answer>", "B"),
        ("<answer>x\ny</answer> <answer>B</answer>", "B"),
        ("<answer>x\n<answer>B</answer>", "B"),
        ("<answer>x<answer>\nB</answer>", "B"),
        ("<answer>x<answer>B</answer>", "x<answer>B"),
        ("<answer></answer>", ""),
        ("<answer>x\ny</answer>", None),
        ("B</answer>", None),
        ("<answer>\nx\n" * 50_000 + "</answer>", "x"),
        ("<answer>x\ny</answer>" * 10_000 + "<answer>B</answer>", "B"),
    ],
)
def test_the_tag_is_found_as_by_the_released_pattern(text: str, line: str | None) -> None:
    assert tagged_line(text) == line
