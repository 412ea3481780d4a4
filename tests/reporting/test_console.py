"""Progress on stderr."""

from __future__ import annotations

import pytest

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
