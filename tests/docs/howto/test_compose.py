"""The combinations of docs/howto/compose.md train, and the misfits that it lists are refused before anything runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, SHORT_RUN, files, read_page, write_files
from vlrft.cli.main import main
from vlrft.config.load import load_config
from vlrft.schema.errors import ConfigError
from vlrft.trainer.stage_settings import resolve_stages

PAGE = read_page("docs/howto/compose.md")
MISFITS = [
    (choice, why)
    for choice, why in re.findall(r"^\| `algorithm: (\{.*\})` \| `(.*)` \|$", PAGE, re.M)
]


@pytest.mark.parametrize("name", ["concise.yaml", "hard.yaml", "noisy.yaml"])
def test_a_combination_trains(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(PAGE, tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    larger = [item.replace("group_size=2", "group_size=6") for item in SHORT_RUN]  # four are kept
    assert main(["train", name, *larger, "--out", "run"]) == 0
    assert (tmp_path / "run" / "report.html").exists()


def test_the_page_has_three_combinations_and_nine_misfits() -> None:
    assert set(files(PAGE)) == {"concise.yaml", "hard.yaml", "noisy.yaml"}
    assert len(MISFITS) == 9


@pytest.mark.parametrize(("choice", "why"), MISFITS)
def test_parts_that_do_not_fit_are_refused_with_the_reason(choice: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_stages(load_config("quickstart", [f"algorithm={choice}"]))
    assert any(why in mistake for mistake in caught.value.mistakes), caught.value.mistakes
