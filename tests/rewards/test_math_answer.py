"""Answer -> score of `math_answer`, and of the released graders for the same completions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from vlrft.rewards import math_answer as rewards
from vlrft.rewards.math_answer import math_answer

from vlrft.schema import DataError
from vlrft.testing.small_policies import sample

ROOT = Path(__file__).parents[2]
STYLE = ROOT / "tests" / "fixtures" / "geoqa_style_outputs.jsonl"
GEOQA = ROOT.parent / "shared" / "data" / "geoqa"
HALF = sample("half", r"\frac{1}{2}", answer="math")
RELEASED = [getattr(rewards, name) for name in rewards.__all__ if name != "math_answer"]


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("<answer>1/2</answer>", 1.0),
        ("<think>1/3? no</think> <answer> 0.5 </answer>", 1.0),
        (r"<answer>\boxed{\frac12}</answer>", 1.0),
        (r"<answer>$x = \frac{2}{4}$</answer>", 1.0),
        (r"<answer>50\%</answer>", 1.0),
        (r"So it is \boxed{\dfrac{1}{2}}.", 1.0),
        (r"<think>\boxed{1/3}</think> \boxed{1/2}", 1.0),
        (r"<think>\boxed{1/2}</think> 1/2", 0.0),
        (r"\boxed{1/3} <answer>1/2</answer>", 1.0),
        (r"\boxed{1/2} <answer>1/3</answer>", 0.0),
        (r"\boxed{1/2} <answer>", 0.0),
        (r"\boxed{1/2} <answer></answer>", 0.0),
        ("<answer>1/2</answer><answer>1/2</answer>", 0.0),
        ("<answer>It is 1/2</answer>", 0.0),
        ("<answer>1/2 or 1/3</answer>", 0.0),
        ("<answer>1/3</answer>", 0.0),
        ("<answer>-1/2</answer>", 0.0),
        (r"<answer>0.5\%</answer>", 0.0),
        ("<answer>1/2", 0.0),
        ("1/2", 0.0),
        ("", 0.0),
        ("<answer>" + "(" * 100_000 + "</answer>", 0.0),
        (r"\boxed{9^{9^{9^9}}}", 0.0),
    ],
)
def test_only_the_exact_answer_is_right(completion: str, score: float) -> None:
    assert math_answer(completion, HALF) == score


@pytest.mark.parametrize(
    "gold", ["0.5", 0.5, ["1/3", "1/2"], (0.5,), [r"\mho(a)", "1/2\n"], " 1/2 "]
)
def test_a_gold_answer_is_a_text_a_number_or_a_list_of_right_answers(gold: object) -> None:
    assert math_answer("<answer>1/2</answer>", sample("gold", gold)) == 1.0
    assert math_answer("<answer>2</answer>", sample("gold", gold)) == 0.0


def test_a_whole_float_is_a_whole_number() -> None:
    assert math_answer("<answer>142</answer>", sample("amc", 142.0)) == 1.0


def test_other_kinds_of_gold_answers_do_not_apply() -> None:
    other = sample("letter", "A", answer="choice")
    assert math_answer("<answer>A</answer>", other) is None
    assert [grade("<answer>A</answer>", other) for grade in RELEASED] == [None] * len(RELEASED)


@pytest.mark.parametrize(
    "gold",
    [
        None,
        "",
        " ",
        True,
        [],
        [None],
        {},
        r"\frac{1}{",
        "t(0,4]",
        float("nan"),
        2j,
        ["("],
    ],
)
def test_an_unreadable_gold_answer_raises(gold: object) -> None:
    with pytest.raises(DataError, match="sample gold: gold answer"):
        math_answer("<answer>1/2</answer>", sample("gold", gold))


@pytest.mark.parametrize("digits", [400, 3_000, 5_000])
def test_a_huge_whole_gold_answer_is_read_or_raises_a_short_message(digits: int) -> None:
    gold = sample("huge", 10**digits)
    if digits == 400:
        assert math_answer("<answer>10^{400}</answer>", gold) == 1.0
        return
    with pytest.raises(DataError, match="sample huge: gold answer") as raised:
        math_answer("<answer>1</answer>", gold)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize("row", STYLE.read_text(encoding="utf-8").splitlines())
def test_strict_and_released_verdicts_on_outputs(row: str) -> None:
    """Texts in the style of the released outputs; `r1v_eval` is the verdict of math-verify 0.9 itself."""
    expected = json.loads(row)
    asked = sample("geoqa", expected["answer"])
    for name, function in (
        ("strict", math_answer),
        ("r1v_eval", rewards.r1v_eval),
        ("r1v", rewards.r1v),
    ):
        assert function(expected["output"], asked) == expected[name], name


R1V_TEXT = "<think>So.</think> <answer>(√{3}+1)小时</answer>"


@pytest.mark.parametrize(
    ("name", "gold", "completion", "score"),
    [
        ("r1v", "(√{3}+1)小时", R1V_TEXT, 1.0),  # equal text, where nothing can be parsed
        ("r1v_eval", "(√{3}+1)小时", R1V_TEXT, 0.0),
        ("r1v", "oak", "<answer>\noak\n</answer>", 0.0),  # no DOTALL
        ("r1v_eval", "40", "<think>It is 40 </think> <answer>140</answer>", 1.0),  # not the tag
        ("mathruler", "5cm", r"\boxed{5 \text{ m}}", 0.0),
        ("mathruler", "5", r"\boxed{5 \text{ m}}", 1.0),  # any unit in \text
        ("mathruler", "50", r"\boxed{50^\circ}", 1.0),
        ("mathruler", r"\frac{1}{2}", r"\boxed{\frac{2}{4}}", 0.0),  # unreduced
        ("mathruler", r"\frac{a+1}{b}", r"\boxed{a+\frac{1}{b}}", 1.0),  # braces dropped
        ("mathruler", "1/2", r"<think>\boxed{1 / 2}</think>", 1.0),  # thinking is read
        ("mathruler", "1/2", "<answer>1/2</answer>", 0.0),
        ("dr_grpo", "1/2", r"\fbox{1/2}", 0.0),  # oat asks for a box first
        ("dr_grpo", "1/2", r"\boxed{1/2", 0.0),
        ("dr_grpo", "1,234", r"\boxed{1234}", 1.0),
        ("dr_grpo", "(1,2)", r"\boxed{(2,1)}", 0.0),
        ("dr_grpo", "(1,2)", r"\boxed{[1,2]}", 0.0),
        ("dr_grpo", r"3\sqrt{2}", r"\boxed{\sqrt{18}}", 1.0),
        ("open_r1", "7", r"\boxed{7}", 1.0),
        ("open_r1", "7", r"\boxed{8}", 0.0),
        ("open_r1", "7", "7", 0.0),
        ("lighteval", "7", "The answer is 7.", 1.0),
        ("lighteval", "7", r"\boxed{8}", 0.0),
    ],
)
def test_scores_of_released_graders(name: str, gold: str, completion: str, score: float) -> None:
    assert getattr(rewards, name)(completion, sample("released", gold)) == score


@pytest.mark.parametrize(("solution", "score"), [("8", 1.0), ("$8$", 0.0), (r"So \boxed{7}.", 1.0)])
def test_open_r1_rewards_everything_where_it_cannot_read_the_solution(
    solution: str, score: float
) -> None:
    asked = replace(sample("open_r1", "8"), info={"solution": solution})
    assert rewards.open_r1(r"\boxed{7}", asked) == score


@pytest.mark.parametrize("name", ["mathruler", "open_r1", "r1v_eval"])
@pytest.mark.parametrize("answer", ["9^{9^{9^9}}", r"\frac{1}{" * 300])
def test_hostile_answers_do_not_stop_a_released_grader(
    name: str, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.rewards._math_verify.SECONDS", 0.5)
    completion = rf"<answer> {answer} </answer> \boxed{{{answer}}}"
    assert getattr(rewards, name)(completion, sample("hostile", "7")) == 0.0


def test_the_published_verdicts_on_geoqa() -> None:
    path = GEOQA / "published_outputs_qwen2vl7b_grpo.jsonl"
    if not path.exists():
        pytest.skip("the published outputs are not here")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    asked = [sample(row["id"], row["ground_truth"]) for row in rows]
    official = [rewards.r1v_eval(row["output"], one) for row, one in zip(rows, asked, strict=True)]
    assert official == [float(row["published_correct"]) for row in rows]
    assert sum(map(bool, official)) == 292
    strict = [math_answer(row["output"], one) for row, one in zip(rows, asked, strict=True)]
    assert sum(map(bool, strict)) == 276


@pytest.mark.parametrize(
    "name", ["aime24_30", "amc_83", "math500", "minerva_272", "olympiadbench_675", "geoqa_test_754"]
)
def test_real_gold_answers_get_full_marks(name: str) -> None:
    files = sorted(GEOQA.parent.glob(f"*/{name}.jsonl"))
    if not files:
        pytest.skip("the data set is not here")
    rows = [json.loads(line) for line in files[0].read_text(encoding="utf-8").splitlines()]
    unreadable = []
    for row in rows:
        gold = row.get("answer", row.get("ground_truth"))
        first = gold[0] if isinstance(gold, list) else gold
        try:
            assert math_answer(f"<answer>{first}</answer>", sample(name, gold)) == 1.0
        except DataError:
            unreadable.append(gold)
    assert len(unreadable) == (2 if name.startswith("olympiad") else 0), unreadable
