"""Rows whose own part is what they pay: rewards by hand on a few completions, and each row with a mistake."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from tests.systems.mutant import Mutant
from tests.systems.row import Row
from tests.systems.wrong_parts import HERE
from vlrft.testing.small_policies import sample

WEATHER = {"name": "weather", "parameters": {"city": "Oslo", "days": 3}}
NOTHING = ""


def thought(answer: str) -> str:
    return f"<think>so</think><answer>{answer}</answer>"


def bare(answer: str) -> str:
    return f"<answer>{answer}</answer>"


def assert_paid(row: Row, kind: str, gold: object, expected: Mapping[str, float]) -> None:
    """Each completion earns what is expected, by the row's task on a table with this gold answer."""
    (only,) = row.table((kind, gold))
    assert row.paid(only, *expected) == pytest.approx(list(expected.values()))


def assert_fuzzy_counts(row: Row) -> None:
    """1.5 less the relative error where that is below one half, and 1 for the form."""
    texts = [thought("10"), thought("9"), thought("4"), bare("10"), NOTHING]
    paid = row.paid(sample("q", 10, answer="count"), *texts)
    assert paid == pytest.approx([2.5, 2.4, 1.0, 1.5, 0.0])


def assert_segments(row: Row) -> None:
    """Half for the overlap, half for the form."""
    texts = {thought("2, 6"): 1.0, thought("4, 8"): 0.5 / 3 + 0.5, bare("2, 6"): 0.5, NOTHING: 0.0}
    assert_paid(row, "segment", [2, 6], texts)


def assert_calls(row: Row) -> None:
    """A right call earns 3, its name and keys alone a part of that, nothing readable -3; the form 1 more."""
    call = (
        '<tool_call>{{"name": "weather", "parameters": {{"city": "Oslo", "days": {}}}}}</tool_call>'
    )
    attainable = 1 + 1 + 2
    texts = {
        "<think>so</think>" + call.format(3): 4.0,
        "<think>so</think>" + call.format(4): 6 * (1 + 1 + 1) / attainable - 3 + 1,
        call.format(3): 3.0,
        NOTHING: -3.0,
    }
    assert_paid(row, "tool_calls", [WEATHER], texts)


def assert_several_kinds(row: Row) -> None:
    """Of each kind of answer its own reward, of segments and boxes the overlap, and 1 for the form."""
    segment, boxes, choice = row.table(
        ("segment", [2, 6]), ("boxes", [[0, 0, 100, 100]]), ("choice", "B")
    )
    assert row.paid(segment, thought("4, 8")) == pytest.approx([1 / 3 + 1])
    assert row.paid(boxes, thought("[[0, 0, 100, 50]]"), NOTHING) == pytest.approx([1.5, 0.0])
    assert row.paid(choice, thought("B"), thought("A"), bare("B")) == [2.0, 1.0, 1.0]


def assert_labels(row: Row) -> None:
    """The common labels over all of them: one too many costs."""
    texts = {
        thought("a; b"): 2.0,
        thought("a; b; c"): 2 / 3 + 1,
        bare("a"): 0.5 + 1,
        NOTHING: 0.0,
    }
    assert_paid(row, "labels", "a; b", texts)


def assert_mixed_rules(row: Row) -> None:
    """Rules by kind: equality of mathematics, choices and counts, the overlap of boxes, and one half for the form."""
    math_, choice, box, count = row.table(
        ("math", "1/2"), ("choice", "B"), ("box", [0, 0, 100, 100]), ("count", 3)
    )
    assert row.paid(math_, thought("0.5"), thought("2")) == [1.5, 0.5]
    assert row.paid(choice, thought("B"), thought("C")) == [1.5, 0.5]
    assert row.paid(box, thought("(0,0),(100,50)"), NOTHING) == pytest.approx([1.0, 0.0])
    assert row.paid(count, thought("3"), thought("4")) == [1.5, 0.5]


def assert_choice_and_thought(row: Row) -> None:
    """1 for the right choice, 1 for thinking before the answer; the answer alone has not the form."""
    assert_paid(row, "choice", "B", {thought("B"): 2.0, bare("B"): 1.0, thought("A"): 1.0})


def assert_action_and_place(row: Row) -> None:
    """The kind of an action earns 1, the place of a click 1 more, the form 1."""
    assert_clicks(row, right=3.0, elsewhere=2.0, other=1.0)


def assert_whole_actions(row: Row) -> None:
    """0.8 for an action that is right as a whole, 0.2 for the form: the kind alone earns nothing."""
    assert_clicks(row, right=1.0, elsewhere=0.2, other=0.2)


def assert_clicks(row: Row, *, right: float, elsewhere: float, other: float) -> None:
    click = '{{"action": "{}", "coordinate": [{}, 5]}}'
    texts = {
        thought(click.format("click", 5)): right,
        thought(click.format("click", 50)): elsewhere,
        thought(click.format("scroll", 5)): other,
        NOTHING: 0.0,
    }
    assert_paid(row, "gui_action", {"action": "click", "box": [0, 0, 10, 10]}, texts)


def assert_finance(row: Row) -> None:
    """1 for a right number or choice, 1 for the form."""
    assert_number_or_choice(row, "math", "7")


def assert_right_or_wrong(row: Row) -> None:
    """1 for a right answer of either kind and nothing else, whatever its form."""
    number, choice = row.table(("math", "7"), ("choice", "B"))
    assert row.paid(number, thought("7"), bare("7"), thought("8"), NOTHING) == [1.0, 1.0, 0.0, 0.0]
    assert row.paid(choice, thought("B"), thought("A"), NOTHING) == [1.0, 0.0, 0.0]


def assert_counts_and_choices(row: Row) -> None:
    """Counts and choices, each right or wrong, and 1 for the form."""
    assert_number_or_choice(row, "count", 3)


def assert_number_or_choice(row: Row, kind: str, gold: str | int) -> None:
    number, choice = row.table((kind, gold), ("choice", "B"))
    assert row.paid(number, thought(str(gold)), thought("8"), NOTHING) == [2.0, 1.0, 0.0]
    assert row.paid(choice, thought("B"), thought("A"), NOTHING) == [2.0, 1.0, 0.0]


def assert_contained_names(row: Row) -> None:
    """A name that contains the gold one or is contained in it is right."""
    asked = sample("q", "pink primrose", answer="choice")
    texts = [thought("pink primrose"), thought("primrose"), thought("rose bush"), bare("primrose")]
    assert row.paid(asked, *texts) == [2.0, 2.0, 1.0, 1.0]


def assert_class_and_form(row: Row) -> None:
    """0.9 for the right class, 0.1 for a readable answer."""
    assert_paid(row, "choice", "B", {bare("B"): 1.0, bare("A"): 0.1, "B": 0.0})


def assert_short_answers(row: Row) -> None:
    """1 for the choice, one half for the form, and up to 0.2 less beyond the budget of characters."""
    long = "<think>" + "x" * 6000 + "</think><answer>B</answer>"
    assert_paid(row, "choice", "B", {thought("B"): 1.5, thought("A"): 0.5, long: 1.3})


def assert_agreement(row: Row) -> None:
    """The share of the group with the same answer, less 0.75 of the entropy; the gold answer is not read."""
    texts = [bare("A"), bare("A"), bare("B"), NOTHING]
    entropy = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3)) / math.log(2)
    for gold in ("A", "B"):
        paid = row.paid(sample("q", gold), *texts)
        assert paid == pytest.approx([share - 0.75 * entropy for share in (0.5, 0.5, 0.25, 0.0)])


def assert_paths(row: Row) -> None:
    """0.9 of the path's likeness and 0.1 of the form, which wants a thought; a detour of the same places costs."""
    gold = [[0.1, 0.1], [0.5, 0.1], [0.9, 0.1]]
    worst = math.sqrt(2) + 0.25 * math.pi + 0.1 * math.log(10)
    moved = 0.2 + 0.1 * math.log(1.5)  # of the middle point, whose next step is longer by half
    texts = {
        thought(str(gold)): 1.0,
        bare(str(gold)): 0.9,
        thought("[[0.1, 0.1], [0.3, 0.1], [0.9, 0.1]]"): 0.9 * (1 - moved / worst) + 0.1,
        NOTHING: 0.0,
    }
    assert_paid(row, "trajectory", gold, texts)


def assert_parts_of_choices(row: Row) -> None:
    """A share of the right letters where all that are named are right; 0 with a wrong one; 1 for the form."""
    texts = {bare("A,C"): 2.0, bare("C"): 1.5, bare("A,B"): 1.0, NOTHING: 0.0}
    assert_paid(row, "choices", ["A", "C"], texts)


def assert_open_rs(row: Row) -> None:
    """Twice the cosine of the length, between 1 and 0.5 where right and 0 and -0.5 where wrong, and 1 for the form."""
    asked = sample("q", "$7$", answer="math")
    right, wrong = (f"<think>\n{'x' * 400}\n</think>\n$\\boxed{{{n}}}$" for n in (7, 8))
    curve = 0.25 * (1 + math.cos(math.pi * len(right) / 1000))
    paid = row.paid(asked, right, wrong, "x" * 1000)
    assert paid == pytest.approx([2 * (0.5 + curve) + 1, 2 * (curve - 0.5) + 1, -1.0])


def _pays(rewards: Mapping[str, float], *, base: str = "table", **options: Any) -> dict[str, Any]:
    """The config of a row with these rewards in place of its own."""
    task = {"options": options} if options else {}
    return {"base": base, "config": {"task": {**task, "rewards": rewards}, "algorithm": "grpo"}}


KINDS = {"answer": "custom", "kinds": "kind"}
ROWS: Mapping[int, Mutant] = {
    4: Mutant(
        assert_fuzzy_counts,
        "an exact count: a near one earns nothing",
        _pays({"count": 1.0, "format.r1": 1.0}, base="counting_grpo"),
    ),
    14: Mutant(
        assert_segments,
        "both rewards whole",
        _pays({"temporal_iou": 1.0, "format.r1": 1.0}, answer="span"),
    ),
    21: Mutant(
        assert_calls,
        "calls right or wrong as a whole",
        _pays({f"{HERE}tool_calls": 1.0, "tool_calls.form": 1.0}, answer="custom"),
    ),
    29: Mutant(
        assert_several_kinds,
        "boxes and segments are not paid by their overlap",
        _pays({"choice": 1.0, "format.r1": 1.0}, **KINDS),
    ),
    32: Mutant(
        assert_labels,
        "labels too many cost nothing",
        _pays({f"{HERE}jaccard": 1.0, "format": 1.0}, answer="custom"),
    ),
    33: Mutant(
        assert_mixed_rules,
        "no overlap of boxes: only what can be equal is paid",
        _pays({"math_answer": 1.0, "choice": 1.0, "count": 1.0, "format": 0.5}, **KINDS),
    ),
    35: Mutant(
        assert_choice_and_thought,
        "the table's own form, which an answer without a thought has",
        _pays({"choice": 1.0, "format": 1.0}, answer="choice"),
    ),
    37: Mutant(
        assert_action_and_place,
        "GUI-R1's accuracy: the kind of an action alone earns nothing",
        _pays({"gui_action.accuracy": 1.0, "format": 1.0}, answer="custom"),
    ),
    38: Mutant(
        assert_finance,
        "mathematics alone, as `answer: math`: choices earn nothing",
        _pays({"math_answer": 1.0, "format": 1.0}, **KINDS),
    ),
    43: Mutant(
        assert_contained_names,
        "the strict name in place of the released containment",
        _pays({"classname": 1.0, "format.r1": 1.0}, base="finegrained_flowers102_grpo_released"),
    ),
    46: Mutant(
        assert_class_and_form,
        "class and form of equal weight",
        _pays({"choice": 1.0, "format": 1.0}, answer="choice"),
    ),
    53: Mutant(
        assert_short_answers,
        "no reward of the length",
        _pays({"choice": 1.0, "format": 0.5}, answer="choice"),
    ),
    70: Mutant(
        assert_counts_and_choices,
        "choices alone, as `answer: choice`: counts earn nothing",
        _pays({"choice": 1.0, "format": 1.0}, **KINDS),
    ),
    77: Mutant(
        assert_right_or_wrong,
        "a reward for the form as well",
        _pays({"math_answer": 1.0, "choice": 1.0, "format": 1.0}, **KINDS),
    ),
    79: Mutant(
        assert_agreement,
        "TTRL's vote in place of shares less the entropy",
        _pays({f"{HERE}majority": 1.0}, base="quickstart"),
    ),
    83: Mutant(
        assert_paths,
        "the plain Fréchet distance, without directions and lengths of steps",
        _pays({f"{HERE}trajectory": 0.9, "trajectory.form": 0.1}, answer="custom"),
    ),
    102: Mutant(
        assert_parts_of_choices,
        "all right choices or nothing",
        _pays({f"{HERE}choices": 1.0, "format": 1.0}, answer="custom"),
    ),
    145: Mutant(
        assert_open_rs,
        "by length alone, whether right or wrong",
        _pays({"length.cosine": 2.0, "format.open_rs": 1.0}, base="textmath_gpg_rs_released"),
    ),
    181: Mutant(
        assert_whole_actions,
        "UI-R1's reward: the kind of an action earns by itself",
        _pays({"gui_action": 0.8, "format": 0.2}, answer="custom"),
    ),
}
"""Row -> its check, and its config with a mistake."""
