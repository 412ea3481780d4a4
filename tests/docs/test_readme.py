"""The README's examples run as printed, on runs cut short; each of its Python blocks is under 25 lines of code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.docs.pages import ROOT, blocks, commands, files, read_page, write_files
from vlrft.cli.main import main, parse

README = read_page("README.md")
SHORT = (
    "stages.0.steps=1",
    "stages.1.steps=1",
    "stages.0.prompts_per_step=4",
    "stages.1.prompts_per_step=2",
)
SMALL = ("eval.limit=4", "rollout.group_size=2", "rollout.max_tokens=4", "policy.build.layers=1")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the README's files, its configs and some data of one's own."""
    write_files(README, tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (tmp_path / "data").mkdir()
    for split in ("train", "test"):
        rows = []
        for colour in ("red", "blue", "white", "black"):
            Image.new("RGB", (56, 56), colour).save(tmp_path / "data" / f"{colour}.png")
            rows.append({"image": f"{colour}.png", "question": "Which?", "answer": colour})
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "data" / f"{split}.jsonl").write_text(lines)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def the_command(words: str) -> list[str]:
    (found,) = [c for c in commands(README) if words in " ".join(c)]
    return found[1:]


def test_blocks_are_short() -> None:
    python = {name: text for name, text in files(README).items() if name.endswith(".py")}
    assert python
    for name, text in python.items():
        code = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        assert len(code) < 25, name


@pytest.mark.parametrize("word", ["terse.py", "spo.py", "train signs.yaml"])
def test_a_changed_reward_task_and_method_train(here: Path, word: str) -> None:
    assert main([*the_command(word), *SHORT, *SMALL, "--out", "run"]) == 0
    lines = Path("run/rollouts.jsonl").read_text().splitlines()
    assert all(json.loads(line)["completion"] for line in lines[:4])
    assert (Path("run") / "report.html").exists()


def test_the_task_of_ones_own_passes_its_check(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(the_command("check ./signs.py")) == 0
    assert "4 of 4 gold answers earn full marks" in capsys.readouterr().out


def test_the_loss_core_runs_in_a_trainer_of_ones_own(here: Path) -> None:
    done = subprocess.run([sys.executable, "own_trainer.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "'alpha': 1.0" in done.stdout


def test_every_printed_command_is_one_the_program_takes() -> None:
    for command in commands(README):
        assert parse(command[1:]).module


def test_every_file_of_the_tree_exists() -> None:
    tree = next(block for block in blocks(README, "text") if block.startswith("vlrft/"))
    inside = [line.split()[0] for line in tree.splitlines() if line.startswith("  ")]
    top = [line.split()[0] for line in tree.splitlines() if not line.startswith("  ")]
    assert all((ROOT / "vlrft" / name).exists() for name in inside)
    assert all((ROOT / name).exists() for name in top)
    listed = {name.rstrip("/") for name in re.findall(r"([a-z_]+(?:/|\.py))", tree)}
    modules = {p.name for p in (ROOT / "vlrft").iterdir() if not p.name.startswith("_")}
    assert modules <= listed, modules - listed
