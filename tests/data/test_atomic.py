"""Errors of a disk name the file that could not be written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from vlrft.cli.main import explain
from vlrft.data.atomic import naming, write_atomically
from vlrft.data.jsonl import append_rows

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux's device that is always full")
def test_a_full_disk_names_the_log_that_was_written() -> None:
    with pytest.raises(OSError, match="No space left") as caught:
        append_rows(Path("/dev/full"), [{"step": 1}])
    assert caught.value.filename == "/dev/full"
    code, line = explain(caught.value, [], None)
    assert (code, line.partition(" (")[0]) == (1, "/dev/full: No space left on device")


def test_a_full_disk_names_the_file_and_not_its_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.json").write_bytes(b"old")

    def fail(descriptor: int) -> None:
        raise FULL

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomically(tmp_path / "a.json", b"new")
    assert caught.value.filename == str(tmp_path / "a.json")
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_bytes() == b"old"


def test_a_folder_that_is_gone_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write_atomically(tmp_path / "gone" / "a.json", b"new")
    assert caught.value.filename == str(tmp_path / "gone" / "a.json")


def test_the_name_of_another_file_stays(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, naming(tmp_path / "out"):
        (tmp_path / "picture.png").read_bytes()
    assert caught.value.filename == str(tmp_path / "picture.png")
