"""Bad input of every kind, through the command: one line with what, where and what to do; exit code 1 or 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from vlrft.cli.main import main

CONFIG = """
task: {name: ./own.py:task, options: {}}
policy: {build: {hidden_size: 32, layers: 1, vision_width: 32, vision_layers: 1, intermediate_size: 32}}
rollout: {max_tokens: 3, group_size: 2}
stages: [{algorithm: gpg, steps: 1, prompts_per_step: 2}]
"""
OWN = """
import json
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from PIL import Image
from vlrft.schema import IMAGE, Message, Sample, Task

@dataclass(frozen=True, kw_only=True)
class Options:
    rows: str = "rows.json"

def load(split, options):
    return [
        Sample(
            id=f"row{i}",
            messages=(Message(role="user", content=(IMAGE, row["question"])),),
            images=(Image.open(BytesIO(Path(row["image"]).read_bytes())),),
            answer=row["answer"],
            tags={"answer": "count"},
        )
        for i, row in enumerate(json.loads(Path(options.rows).read_text()))
    ]

task = Task(name="own", doc="", options=Options, splits=("train", "test"), load=load,
            rewards={"count": 1.0}, graders={"strict": ("count",)}, gold=lambda s: f"<answer>{s.answer}</answer>")

def raising(completion, sample):
    raise KeyError("bbox")

def nan(completion, sample):
    return float("nan")
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text(CONFIG)
    (tmp_path / "own.py").write_text(OWN)
    Image.new("RGB", (56, 56), "white").save(tmp_path / "white.png")
    Image.new("RGB", (1120, 1120), "white").save(tmp_path / "large.png")
    (tmp_path / "broken.png").write_bytes((tmp_path / "large.png").read_bytes()[:200])
    (tmp_path / "empty_model").mkdir()
    (tmp_path / "a_file").write_text("")
    rows = {
        "rows": [{"image": "white.png", "question": "How many?", "answer": "1"}] * 2,
        "none": [],
        "gold": [{"image": "white.png", "question": "How many?", "answer": "some"}] * 2,
        "broken": [{"image": "broken.png", "question": "How many?", "answer": "1"}] * 2,
        "large": [{"image": "large.png", "question": "How many?", "answer": "1"}] * 2,
    }
    for name, content in rows.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return tmp_path


CASES = {
    "unknown key": (
        ["rollout.groupsize=3"],
        2,
        "rollout.groupsize: unknown key; did you mean rollout.group_size?",
    ),
    "wrong type": (["update.lr=fast"], 2, "update.lr: expected a number"),
    "unknown family": (
        ["policy.build.family=qwen2_5vl"],
        2,
        "policy.build.family: unknown family 'qwen2_5vl'; did you mean qwen2_5_vl? known: glm4v, ",
    ),
    "unknown engine": (
        ["engine=singel"],
        2,
        "engine: unknown train engine 'singel'; did you mean single? known: deepspeed, fsdp, single",
    ),
    "engine in a file that is not there": (
        ["rollout.engine=./nowhere.py:Mine"],
        2,
        "rollout.engine: nowhere.py: no such file",
    ),
    "empty dataset": (
        ["task.options.rows=none.json"],
        2,
        "task own: the train split has no samples",
    ),
    "unreadable image": (["task.options.rows=broken.json"], 1, "row0"),
    "unreadable gold": (
        ["task.options.rows=gold.json"],
        1,
        "row0: gold answer 'some' is not a count",
    ),
    "reward raises": (
        ["task.rewards={./own.py:raising: 1.0}"],
        1,
        "sample row0: reward raising raised KeyError",
    ),
    "reward is NaN": (
        ["task.rewards={./own.py:nan: 1.0}"],
        1,
        "sample row0: reward nan returned nan",
    ),
    "no weights": (["policy.model=empty_model"], 2, "empty_model"),
    "image too large": (
        ["task.options.rows=large.json", "rollout.max_prompt_tokens=256"],
        1,
        "row0",
    ),
    "group of one": (
        ["rollout.group_size=1"],
        2,
        "stages.0.rollout.group_size: 1, but gpg compares",
    ),
    "unwritable": (["--out", "a_file/run"], 2, "a_file/run: cannot be written"),
    "unknown task": (["task.name=digit"], 2, "did you mean digits?"),
}


def test_a_path_whose_bytes_are_not_utf8_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run in it could not be reported: its pages name it."""
    with pytest.raises(SystemExit) as caught:
        main(["train", "c.yaml", "--out", "a\udcffb"])
    assert caught.value.code == 2
    assert ": --out: not UTF-8" in capsys.readouterr().err
    assert not list(here.glob("a*b"))


@pytest.mark.parametrize("option", ["--out", "--json", "--html", "--predictions"])
def test_an_empty_path_is_not_the_current_folder(
    option: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = {
        "--out": ["train", "c.yaml"],
        "--json": ["eval", "--model", "m", "--task", "digits"],
        "--html": ["data", "show", "digits"],
        "--predictions": ["score", "digits"],
    }
    before = sorted(here.iterdir())
    with pytest.raises(SystemExit) as caught:
        main([*commands[option], option, ""])
    assert caught.value.code == 2
    assert f": {option}: empty; expected a path" in capsys.readouterr().err
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize("name", sorted(CASES))
def test_bad_input_is_one_clear_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, code, message = CASES[name]
    assert main(["train", "c.yaml", *arguments]) == code
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("vlrft: ")]
    assert len(lines) == 1
    assert message in lines[0]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("rollout.engine={name: hf, rows: 1}", "rollout.engine.rows: unknown key; there"),
        ("rollout.engine={name: vllm, transfer: ipc}", "rollout.engine.transfer: ipc is not there"),
        ("rollout.engine={name: vllm, servers: 0}", "rollout.engine.servers: 0 is out of range"),
        ("stages.0.algorithm={name: gpg, rows: 1}", "stages.0.algorithm.rows: unknown key"),
        ("rollout.max_tokens=0", "rollout.max_tokens: 0 is out of range"),
    ],
)
def test_a_mistake_names_its_file_and_key_once_whenever_it_is_found(
    setting: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "rollout.yaml").write_text((here / "c.yaml").read_text())
    for file in ("c.yaml", "rollout.yaml"):
        assert main(["train", file, setting]) == 2
        assert f"\nvlrft: {file}: {message}" in "\n" + capsys.readouterr().err
    assert not (here / "runs").exists()


def test_good_input_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "c.yaml", "log.zero_reward_steps=0"]) == 0
