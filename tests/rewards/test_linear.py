"""Rewards take time linear in the completion: the count of their work grows as the text does."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from tests.rewards.counted_work import count_work
from vlrft.grading import SandboxedWorker
from vlrft.plugins.find import find_reward, reward_names
from vlrft.testing.hostile_targets import TARGETS

close_tags = import_module("vlrft.rewards._easyr1").close_tags
latex_to_text = import_module("vlrft.rewards._latex_text").latex_to_text
released_math = import_module("vlrft.rewards._released_math")
find_tagged = import_module("vlrft.rewards._visual_rft").find_tagged
tagged_line = import_module("vlrft.rewards._released_choice").tagged_line

SMALL, LARGE = 2**7, 2**10  # characters
GROWTH = 1.25  # times the growth of the text

UNITS = [
    *(" ", "\n", "<", ">", "/", "(", "{", "[", "9", "\\", "$", "é", "\x00", "\u202e", "\ud800"),
    *("<answer>", "</answer>", "<answer>\n", "<answer> ", "<answer>x\n</answer>", "<answer>x</answer>\n"),
    *("<think>", "</think>", "</think>\n", "<think></think>", "</think> <answer>", "\n</think>\n"),
    *("\\boxed{", "\\boxed", "\\boxed{5}", "\\fbox{", "{}", "}{", "\\frac{", "\\text{a}"),
    *("(A) ", "A ", "B\n", "(1,2),(3,4)", "(1,2),(3,4);", "(1 , ", "1, 2", "1-", "[1, 2]", "1:2,"),
    *("[{", "{'Position': [1,2,3,4], 'Confidence': 1}, ", "},", "x ", "the cat ", "1+", "3 = ", "-1 "),
]  # fmt: skip
WRAPS = {
    "alone": "{}",
    "in a tag": "<answer>{}</answer>",
    "in a box": "\\boxed{{{}}}",
    "after thinking": "<think>{}</think><answer>7</answer>",
    "before": "{}</think> <answer>7</answer>",
}


@pytest.fixture(autouse=True)
def _without_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call in the worker has a time limit of its own."""
    monkeypatch.setattr(SandboxedWorker, "call", lambda *arguments, **settings: None)


def assert_linear(function: Callable[[str], Any]) -> None:
    for unit in UNITS:
        for wrap in WRAPS.values():
            counts = [
                count_work(function, wrap.format(unit * (size // len(unit))))
                for size in (SMALL, LARGE)
            ]
            limit = GROWTH * (LARGE / SMALL) * (counts[0] + 300)
            assert counts[1] <= limit, f"{wrap.format(unit)!r}: {counts}"


@pytest.mark.parametrize("name", reward_names())
def test_the_work_of_a_reward_grows_as_its_text(name: str) -> None:
    if name == "text_overlap":
        pytest.importorskip("sacrebleu")
    reward, asked = find_reward(name), TARGETS[name].sample
    assert reward("", asked) is not None
    assert_linear(lambda text: reward(text, asked))


@pytest.mark.parametrize(
    "reader",
    [
        close_tags,
        latex_to_text,
        tagged_line,
        released_math._last_box,
        lambda text: released_math._box(text, 0),
        lambda text: find_tagged(text, lines=True),
        lambda text: find_tagged(text, lines=False),
    ],
    ids=["close_tags", "latex_to_text", "tagged_line", "last_box", "box", "tagged", "tagged_lines"],
)
def test_the_work_of_a_reader_grows_as_its_text(reader: Callable[[str], Any]) -> None:
    def read(text: str) -> None:
        try:
            reader(text)
        except (ValueError, RecursionError):  # LaTeX that cannot be read
            return

    assert_linear(read)


def test_quadratic_work_is_found() -> None:
    def search_again(text: str) -> None:
        start = text.find("<answer>")
        while start >= 0:
            text.find("</answer>", start)
            start = text.find("<answer>", start + 1)

    with pytest.raises(AssertionError, match="<answer>"):
        assert_linear(search_again)


@pytest.mark.parametrize(
    "text",
    [
        "< think >a b< / think >",
        "\n< \t/ > x\u00a0/ y ",
        "<<  >>  //",
        " a ",
        "a <",
        "",
        "\x1c<\x85>\u2028/\u3000",
        "a\u200b< b",
    ],
)
def test_white_space_beside_marks_is_removed_as_by_the_released_pattern(text: str) -> None:
    assert close_tags(text) == re.sub(r"\s*(<|>|/)\s*", r"\1", text)


def test_the_same_characters_are_white_space() -> None:
    every = "".join(map(chr, range(0x10000)))
    spaces = "".join(re.findall(r"\s", every))
    assert close_tags(f"<{spaces}>") == "<>"
    assert set(every.translate(dict.fromkeys(map(ord, spaces)))).isdisjoint(
        c for c in every if c.isspace()
    )


@pytest.mark.parametrize("name", ["boxes", "boxes.matched"])  # the reasons that search in texts
def test_the_work_of_a_reason_grows_as_the_completion(name: str) -> None:
    why = vars(find_reward(name))["why_unreadable"]
    sample = TARGETS[name].sample
    assert_linear(lambda text: why(text, sample))
