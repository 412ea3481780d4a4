"""docs/howto/python.md: its files run, in their order."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

import vlrft
from tests.docs.pages import files, read_page, write_files

PAGE = read_page("docs/howto/python.md")


def test_the_files_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(PAGE, tmp_path)
    assert vlrft.load_config("tiny.yaml").stages[1].steps == 2
    Image.new("RGB", (56, 56), "white").save("seven.png")
    first: dict[str, object] = {}
    exec(files(PAGE)["first.py"], first)
    assert isinstance(first["answer"], str)
    assert Path("runs/first/checkpoints/step_3/config.json").is_file()
    output = capsys.readouterr().out
    assert output.startswith("runs/first/checkpoints/step_3\n{'classify': ")
    assert "classify 0/" in output or "classify 1/" in output or "classify 2/" in output
    exec(files(PAGE)["callbacks.py"], {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["scores", "scores", "saved", "saved", "stopped"]
