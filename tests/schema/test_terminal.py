"""Control sequences never reach a terminal raw, and progress bars still work."""

from __future__ import annotations

import io
import logging
import sys

import pytest

from vlrft.schema.terminal import SafeStream, guarded_streams, raw_stream, show_controls

HOSTILE = [
    ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
    ("a\rb", "a\\x0db"),
    ("\x9b31m", "\\x9b31m"),
    ("price \u202e99$\u202c", "price \\u202e99$\\u202c"),
    ("\u2066x\u2069\u061c\u200f", "\\u2066x\\u2069\\u061c\\u200f"),
    ("half \ud83d", "half \\ud83d"),
    ("\x00\x08\x7f", "\\x00\\x08\\x7f"),
]
HARMLESS = ["plain\ttext\n", "中文, العربية, ∑ ½", "\n", ""]


@pytest.mark.parametrize(("text", "shown"), HOSTILE)
def test_control_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    stream = io.StringIO()
    assert SafeStream(stream).write(text) == len(text)
    assert stream.getvalue() == show_controls(text) == shown


@pytest.mark.parametrize("text", HARMLESS)
def test_other_text_is_written_as_it_is(text: str) -> None:
    stream = io.StringIO()
    SafeStream(stream).write(text)
    assert stream.getvalue() == text


@pytest.mark.parametrize("move", ["\r", "\n\n", "\x1b[A\x1b[A", "\r 50%|###  |"])
def test_a_progress_bar_moves_its_cursor(move: str) -> None:
    stream = io.StringIO()
    SafeStream(stream).write(move)
    assert stream.getvalue() == move


def test_text_that_the_terminal_cannot_encode_is_escaped() -> None:
    raw = io.BytesIO()
    stream = SafeStream(io.TextIOWrapper(raw, encoding="ascii"))
    stream.write("½ of €\n")
    stream.flush()
    assert raw.getvalue() == b"\\xbd of \\u20ac\n"


def test_prints_and_log_records_are_guarded_within_the_block_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_TOKEN", "canary-value")
    before = sys.stdout, sys.stderr
    with guarded_streams():
        assert raw_stream(sys.stdout) is before[0]
        print("\x1b[31m canary-value")
        logging.StreamHandler().emit(logging.makeLogRecord({"msg": "\x1b]0;x\x07"}))
    assert (sys.stdout, sys.stderr) == before
    out, err = capsys.readouterr()
    assert out == "\\x1b[31m <redacted>\n"
    assert err == "\\x1b]0;x\\x07\n"
