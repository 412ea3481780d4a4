"""Calls -> score of `tool_calls`, by ToolRL's formula."""

from __future__ import annotations

import json
from typing import Any

import pytest
from vlrft.rewards.tool_calls import form, tool_calls

from vlrft.schema import DataError
from vlrft.testing.small_policies import sample

WEATHER = {"name": "weather", "parameters": {"city": "Oslo", "days": 3}}
MAIL = {"name": "mail", "parameters": {"to": "a@b.org"}}
GOLD = sample("calls", [WEATHER, MAIL], answer="tool_calls")
ATTAINABLE = 1 + 2 + 3


def score(*calls: Any) -> float | None:
    text = json.dumps(list(calls))
    return tool_calls(f"<think></think><tool_call>{text}</tool_call>", GOLD)


def linear(value: float) -> float:
    return 6 * value / ATTAINABLE - 3


def test_right_calls_earn_three_in_any_order_and_form() -> None:
    assert score(WEATHER, MAIL) == score(MAIL, WEATHER) == 3.0
    lines = f"<tool_call>\n{json.dumps(WEATHER)}\n{json.dumps(MAIL)}\n</tool_call>"
    assert tool_calls(lines, GOLD) == 3.0
    renamed = {"name": "mail", "arguments": MAIL["parameters"]}
    assert score(WEATHER, renamed) == 3.0


@pytest.mark.parametrize(
    ("calls", "value"),
    [
        ((WEATHER,), 1 / 2 + 1 + 2),
        ((WEATHER, MAIL, MAIL), 2 / 3 + (1 + 2) + (1 + 1)),
        (({"name": "weather", "parameters": {"city": "Oslo"}}, MAIL), 1 + (1 / 2 + 1) + 2),
        (({"name": "weather", "parameters": {"city": "Oslo", "days": 3.0}}, MAIL), 6),
        (
            ({"name": "weather", "parameters": {"city": "Oslo", "days": True}}, MAIL),
            1 + (1 + 1) + 2,
        ),
        (({"name": "mail", "parameters": {"city": "Oslo", "days": 3}},), 1 / 2),
        (({"name": "search", "parameters": {}},), 0),
    ],
)
def test_parts_of_calls_earn_parts(calls: tuple[Any, ...], value: float) -> None:
    assert score(*calls) == pytest.approx(linear(value))


@pytest.mark.parametrize(
    ("said", "equal"),
    [
        ([1.0, {"on": True}], True),
        ([True, {"on": True}], False),
        ([1, {"on": 1}], False),
        ([1], False),
    ],
)
def test_values_are_equal_as_json_at_any_depth(said: list[Any], equal: bool) -> None:
    gold = sample(
        "calls", [{"name": "set", "parameters": {"to": [1, {"on": True}]}}], answer="tool_calls"
    )
    call = json.dumps({"name": "set", "parameters": {"to": said}})
    assert tool_calls(f"<tool_call>{call}</tool_call>", gold) == (3.0 if equal else 1.0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        json.dumps(WEATHER),
        "<tool_call>weather(city='Oslo')</tool_call>",
        "<tool_call>[]</tool_call>",
        '<tool_call>[{"name": 3}]</tool_call>',
        f"<tool_call>{json.dumps(WEATHER)}</tool_call><tool_call>{json.dumps(MAIL)}</tool_call>",
        f"<think><tool_call>{json.dumps([WEATHER, MAIL])}</tool_call></think>",
    ],
)
def test_nothing_readable_is_the_least(text: str) -> None:
    assert tool_calls(text, GOLD) == -3.0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<think>so</think><tool_call>x</tool_call>", 1.0),
        ("\n<think></think>\n<tool_call>\nx\n</tool_call> ", 1.0),
        ("<tool_call>x</tool_call>", 0.0),
        ("<think>so</think>I call <tool_call>x</tool_call>", 0.0),
        ("<think>so</think><tool_call>x</tool_call> done", 0.0),
        ("<think>so</think><tool_call>x</tool_call><tool_call>y</tool_call>", 0.0),
        ("<think><think>so</think><tool_call>x</tool_call>", 0.0),
        ("", 0.0),
    ],
)
def test_the_form_is_a_thought_and_then_calls(text: str, value: float) -> None:
    assert form(text, GOLD) == value
    assert form(text, sample("x", "a", answer="class")) is None


def test_the_form_begins_with_the_thinking_that_the_prompt_opened() -> None:
    opened = sample("calls", [WEATHER], answer="tool_calls", opened="<think>\n")
    assert form("so</think><tool_call>x</tool_call>", opened) == 1.0
    assert form("<think>so</think><tool_call>x</tool_call>", opened) == 0.0


def test_gold_calls_are_checked() -> None:
    assert tool_calls("", sample("x", "a", answer="class")) is None
    wrong: tuple[Any, ...] = ([], "weather", [{"parameters": {}}], 3)
    for bad in wrong:
        with pytest.raises(DataError, match="not a list of calls"):
            tool_calls("", sample("x", bad, answer="tool_calls"))
