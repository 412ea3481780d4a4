"""Actions -> scores of `gui_action` and `gui_action.accuracy`."""

from __future__ import annotations

from typing import Any

import pytest
from vlrft.rewards.gui_action import accuracy, gui_action

from vlrft.schema import DataError, Sample
from vlrft.testing.small_policies import sample

BOX = {"action": "click", "box": [100, 200, 300, 400]}
POINT = {"action": "click", "point": [500, 500]}
TYPED = {"action": "input_text", "text": "New York weather"}


def gold(answer: Any) -> Sample:
    return sample("screen", answer, answer="gui_action")


@pytest.mark.parametrize(
    ("answer", "action", "point"),
    [
        ('{"action": "click", "coordinate": [100, 400]}', 1.0, 1.0),
        ('[{"action": "click", "point": [200.5, 300]}]', 1.0, 1.0),
        ('```json\n{"action": "click", "coordinate": [200, 300]}\n```', 1.0, 1.0),
        ('{"action": "click", "coordinate": [99, 300]}', 1.0, 0.0),
        ('{"action": "click"}', 1.0, 0.0),
        ('{"action": "click", "coordinate": [200, 300], "point": [200, 300]}', 1.0, 0.0),
        ('{"action": "click", "coordinate": [200, 300, 1]}', 1.0, 0.0),
        ('{"action": "click", "coordinate": [true, 300]}', 1.0, 0.0),
        ('{"action": "scroll", "coordinate": [200, 300]}', 0.0, 0.0),
        ('[{"action": "click", "coordinate": [200, 300]}, {"action": "scroll"}]', 0.0, 0.0),
        ("__import__('os').system('true')", 0.0, 0.0),
        ("click (200, 300)", 0.0, 0.0),
    ],
)
def test_kind_and_point_are_scored_apart(answer: str, action: float, point: float) -> None:
    scores = gui_action(f"<answer>{answer}</answer>", gold(BOX))
    assert scores == {"action": action, "point": point}
    assert accuracy(f"<answer>{answer}</answer>", gold(BOX)) == point


def test_an_action_without_a_point_earns_both_scores() -> None:
    said = '<answer>{"action": "navigate_back", "coordinate": [0, 0]}</answer>'
    assert gui_action(said, gold({"action": "navigate_back"})) == {"action": 1.0, "point": 1.0}


@pytest.mark.parametrize(("x", "right"), [(639.9, 1.0), (640, 0.0)])
def test_a_click_near_the_gold_point_is_right_up_to_140_pixels(x: float, right: float) -> None:
    said = f'<answer>{{"action": "click", "coordinate": [{x}, 500]}}</answer>'
    assert accuracy(said, gold(POINT)) == right


@pytest.mark.parametrize(
    ("text", "right"),
    [("weather new york", 1.0), ("york", 1.0), ("weather in paris today", 0.0), ("", 0.0)],
)
def test_a_typed_text_is_right_from_half_of_its_words_on(text: str, right: float) -> None:
    said = f'<answer>{{"action": "input_text", "text": "{text}"}}</answer>'
    assert accuracy(said, gold(TYPED)) == right


def test_gold_actions_are_checked() -> None:
    click = '<answer>{"action": "click", "coordinate": [1, 2]}</answer>'
    assert gui_action(click, sample("x", "click", answer="class")) is None
    for bad, message in (
        ("click", "not an action"),
        ({"action": "click"}, "neither a box nor a point"),
        ({"action": "click", "box": [1, 2]}, "not a box"),
    ):
        with pytest.raises(DataError, match=message):
            gui_action(click, gold(bad))
