"""Processes of ranks have the environment of the test that starts them, not that of the first such test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vlrft.testing.process_ranks import start_ranks

NAME = "VLRFT_TEST_OF_RANKS"


def write_variable(rank: int, file: Path) -> None:
    file.write_text(f"{rank} {os.environ.get(NAME)}")


def test_ranks_have_the_present_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "seen"
    monkeypatch.setenv(NAME, "before")
    start_ranks(write_variable, (file,), 1)
    assert file.read_text() == "0 before"
    monkeypatch.delenv(NAME)
    start_ranks(write_variable, (file,), 1)
    assert file.read_text() == "0 None"
