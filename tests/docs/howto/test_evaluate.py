"""The example of stored outputs in docs/howto/evaluate.md runs, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import blocks, command, read_page
from vlrft.cli.main import main


def test_the_example_of_stored_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = read_page("docs/howto/evaluate.md")
    (example,) = [block for block in blocks(page, "sh") if "<<'END'" in block]
    table = example.partition("<<'END'\n")[2].partition("END\n")[0]
    (tmp_path / "outputs.csv").write_text(table)
    monkeypatch.chdir(tmp_path)
    assert main(command(page, "--predictions outputs.csv")) == 0
    (printed,) = blocks(page, "text")
    assert printed in capsys.readouterr().out
    assert "no &lt;answer&gt; tag" in (tmp_path / "outputs.html").read_text()
