"""The commands and the table of docs/howto/synthetic_data.md."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import command, read_page
from vlrft.cli.main import main
from vlrft.cli.synthetic_rows import synthetic_packs
from vlrft.config.load import load_config

PAGE = read_page("docs/howto/synthetic_data.md")
TWINS = Path(__file__).parents[3] / "benchmarks/learning/twins"


def test_the_page_lists_every_pack_with_its_config() -> None:
    listed = dict(re.findall(r"^\| `(\w+)` \|.*\| `(\w+)` \|$", PAGE, flags=re.M))
    assert sorted(listed) == sorted(synthetic_packs())
    assert {pack: load_config(config).task.name for pack, config in listed.items()} == {
        pack: pack for pack in listed
    }


def test_the_commands_of_the_page_are_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare = ["8" if word == "200" else word for word in command(PAGE, "prepare geoqa")]
    assert main(prepare) == 0
    assert "train: 8 rows\n" in capsys.readouterr().out
    assert main(command(PAGE, "data show geoqa")) == 0
    assert Path("sheet.html").stat().st_size > 0
    config = load_config(*_split(command(PAGE, "vlrft train geoqa_gpg")))
    assert config.policy.build is not None
    assert [stage.steps for stage in config.stages] == [300, 50]


@pytest.mark.parametrize("path", sorted(TWINS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_config_of_a_twin_trains_on_the_rows_that_its_first_line_prepares(path: Path) -> None:
    prepare = shlex.split(path.read_text().splitlines()[0].removeprefix("# "))
    assert prepare[:4] == ["vlrft", "data", "prepare", path.stem]
    assert "--synthetic" in prepare
    config = load_config(str(path), [])
    assert (config.task.name, config.task.options["data"]) == (path.stem, prepare[-1])
    of_pack = load_config(str(path.parent / yaml.safe_load(path.read_text())["extends"]), [])
    assert [stage.name for stage in config.stages] == ["sft", of_pack.stages[-1].name]
    assert config.policy.build is not None


def _split(words: list[str]) -> tuple[str, list[str]]:
    """The config of `vlrft train`, and what it changes."""
    return words[1], words[2:]
