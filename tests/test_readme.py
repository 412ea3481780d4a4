"""The README's examples run as printed, on runs cut short; each of its Python blocks is under 25 lines of code."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from vlrft.cli import main, parse

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHORT = (
    "stages.0.steps=1",
    "stages.1.steps=1",
    "stages.0.prompts_per_step=4",
    "stages.1.prompts_per_step=2",
)
SMALL = ("eval.limit=4", "rollout.group_size=2", "rollout.max_tokens=4", "policy.build.layers=1")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.S | re.M)


def named(language: str) -> dict[str, str]:
    """File name (the block's first comment) -> text."""
    found = {m[1]: text for text in blocks(language) if (m := re.match(r"# ([\w.]+)", text))}
    assert found
    return found


def commands(word: str) -> list[list[str]]:
    lines = [line for block in blocks("sh") for line in block.replace("\\\n", " ").splitlines()]
    return [
        shlex.split(line, comments=True)
        for line in lines
        if line.startswith("vlrft") and word in line
    ]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the README's files, its configs and some data of one's own."""
    for name, text in {**named("python"), **named("yaml")}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
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


def test_blocks_are_short() -> None:
    for name, text in named("python").items():
        code = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        assert len(code) < 25, name


@pytest.mark.parametrize("word", ["terse.py", "spo.py", "train signs.yaml"])
def test_a_changed_reward_task_and_method_train(here: Path, word: str) -> None:
    (command,) = commands(word)
    assert main([*command[1:], *SHORT, *SMALL, "--out", "run"]) == 0
    lines = Path("run/rollouts.jsonl").read_text().splitlines()
    assert all(json.loads(line)["completion"] for line in lines[:4])
    assert (Path("run") / "report.html").exists()


def test_the_task_of_ones_own_passes_its_check(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (command,) = commands("check ./signs.py")
    assert main(command[1:]) == 0
    assert "4 of 4 gold answers earn full marks" in capsys.readouterr().out


def test_the_loss_core_runs_in_a_trainer_of_ones_own(here: Path) -> None:
    done = subprocess.run([sys.executable, "own_trainer.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "'alpha': 1.0" in done.stdout


def test_every_printed_command_is_one_the_program_takes() -> None:
    for command in commands("vlrft"):
        assert parse(command[1:]).module


def test_every_file_of_the_tree_exists() -> None:
    tree = next(block for block in blocks("text") if block.startswith("vlrft/"))
    inside = [line.split()[0] for line in tree.splitlines() if line.startswith("  ")]
    top = [line.split()[0] for line in tree.splitlines() if not line.startswith("  ")]
    assert all((ROOT / "vlrft" / name).exists() for name in inside)
    assert all((ROOT / name).exists() for name in top)
    listed = {name.rstrip("/") for name in re.findall(r"([a-z_]+(?:/|\.py))", tree)}
    modules = {p.name for p in (ROOT / "vlrft").iterdir() if not p.name.startswith("_")}
    assert modules <= listed, modules - listed
