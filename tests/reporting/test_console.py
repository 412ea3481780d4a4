"""Progress on stderr."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest

from tests.reporting.logs import evaluation
from vlrft.reporting.console import Console


def test_without_a_terminal_the_console_prints_lines_with_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([100.0, 120.0, 140.0, 145.0, 160.0])
    monkeypatch.setattr("vlrft.reporting.console.time.monotonic", lambda: next(now))
    console = Console(10)
    metrics = {"reward/mean": 0.51234, "loss": -0.25, "speed/rollout_tokens_s": 1200.0}
    for step in (5, 6, 7, 8):  # a run that was resumed after step 4
        console.step("gpg", step, metrics)
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        "gpg step 5/10  reward 0.512  loss -0.25  1,200 tok/s  100 s left",
        "gpg step 6/10  reward 0.512  loss -0.25  1,200 tok/s  80 s left",
        "gpg step 8/10  reward 0.512  loss -0.25  1,200 tok/s  30 s left",
    ]
    fresh = iter([0.0, 10.0, 20.0])
    monkeypatch.setattr("vlrft.reporting.console.time.monotonic", lambda: next(fresh))
    console = Console(10)
    console.step("gpg", 1, {})
    console.step("gpg", 2, {})
    assert capsys.readouterr().err.splitlines()[1].endswith(" 80 s left")


def test_on_a_terminal_there_is_a_bar_and_messages_are_not_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    console = Console(4)
    assert console.progress is not None
    console.step("gpg", 2, {"loss": 0.5})
    console.say("[/bold] printed as it is")
    console.close()
    console.say("after the end")
    output = capsys.readouterr().err
    assert "[/bold] printed as it is" in output
    assert "2/4" in output
    assert "loss 0.5" in output
    assert output.endswith("after the end\n")


@pytest.mark.parametrize("width", [80, 200])
def test_the_bar_the_time_left_and_whole_metrics_fit_into_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    for name, value in (("TTY_COMPATIBLE", "1"), ("COLUMNS", str(width)), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    console = Console(2000)
    metrics = {"reward/mean": 0.51234, "groups/valid_share": 0.75, "loss": -0.25, "entropy": 1.5}
    console.evaluating(128, 1200)
    console.step("reinforcement_learning", 1234, {**metrics, "speed/rollout_tokens_s": 12000.0})
    console.close()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err).replace("\r", "\n")
    line = [line for line in text.splitlines() if "1234/2000" in line][-1].rstrip()
    assert len(line) <= width
    assert line.startswith("reinforcemen")
    assert "…" not in line
    assert "-:--:--" in line  # the time left is whole
    assert "reward 0.512  valid 0.75" in line
    assert ("entropy 1.5  12,000 tok/s" in line) == (width == 200)


def test_a_long_evaluation_shows_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 11.0, 11.0, 12.0])
    monkeypatch.setattr("vlrft.reporting.console.time.monotonic", lambda: next(times))
    console = Console(4)
    for done in (0, 128, 256):
        console.evaluating(done, 1200)
    assert capsys.readouterr().err == "evaluation: 128 of 1,200 samples\n"


def test_in_a_notebook_a_line_changes_and_messages_are_not_on_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[str, bool]] = []
    handle = SimpleNamespace(display_id="1")

    def display(content: dict[str, str], **_: object) -> SimpleNamespace:
        shown.append((content["text/plain"], True))
        return handle

    def update_display(content: dict[str, str], **_: object) -> None:
        shown.append((content["text/plain"], False))

    ipython = ModuleType("IPython.display")
    vars(ipython).update(display=display, update_display=update_display)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    console = Console(4)
    console.evaluating(0, 20)
    console.step("gpg", 1, {"loss": 0.5})
    console.say("a message")
    console.close()
    assert [first for _, first in shown] == [True, False]
    assert shown[0][0] == "evaluation: 0 of 20 samples"
    assert shown[1][0].startswith("gpg step 1/4  loss 0.5")
    assert tuple(capsys.readouterr()) == ("a message\n", "")


def test_an_evaluation_says_how_many_answers_were_unreadable(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = evaluation(0.5)
    why = tuple(replace(r, unreadable="no <answer> tag") for r in result.records)
    Console(4).evaluation("gpg", 2, replace(result, records=why))
    assert capsys.readouterr().err.splitlines()[1:] == [
        "  unreadable 1 of 1",
        "    1 of 1: no <answer> tag",
    ]
