"""The README's example runs as printed, on a run cut short; its layout and its length are held."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, SHORT_RUN, blocks, command, files, read_page, write_files
from vlrft.cli.main import main
from vlrft.config.systems import all_systems

README = read_page("README.md")
MAX_LINES = 130


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the README's files and the shipped configs."""
    write_files(README, tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= MAX_LINES


def test_the_counts_of_systems_are_those_of_the_catalogue() -> None:
    systems = all_systems().values()
    running = sum(system.runs for system in systems)
    assert f"[{len(systems)} published systems]" in README
    assert f"of which {running} run wholly or in part" in README


def test_what_is_said_to_learn_is_in_the_table_of_all_that_learns() -> None:
    rows = [line for line in README.splitlines() if "`python -m benchmarks.learning" in line]
    table = read_page("benchmarks/results/learning.md")
    figures = [f for row in rows for f in re.findall(r"[+-]\d+\.\d|\d+\.\d → \d+\.\d", row)]
    assert len(figures) >= 8
    assert [f for f in figures if f not in table] == []


def test_the_reward_trains() -> None:
    assert list(files(README)) == ["terse.py"]
    assert main([*command(README, "terse=0.1"), *SHORT_RUN, "--out", "run"]) == 0
    rows = [json.loads(line) for line in Path("run/rollouts.jsonl").read_text().splitlines()]
    assert all("terse" in row["scores"] for row in rows if row["stage"] != "sft")
    assert (Path("run") / "report.html").exists()


def test_the_layout_lists_every_folder_and_nothing_else() -> None:
    (tree,) = [block for block in blocks(README, "text") if block.startswith("vlrft/")]
    inside: list[str] = []
    top: list[str] = []
    for line in tree.splitlines():
        names = re.findall(r"(?:^|\s{2,})([a-z_]+)/(?=\s)", line)
        (inside if line.startswith(" ") else top).extend(names)
    folders = {p.name for p in (ROOT / "vlrft").iterdir() if (p / "__init__.py").exists()}
    assert sorted(inside) == sorted(folders)
    assert all((ROOT / name).is_dir() for name in top)
    assert len(tree.splitlines()) <= 25
