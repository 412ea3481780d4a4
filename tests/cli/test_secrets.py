"""Canaries planted in every input of a run: none reaches a file that the run writes, or its output."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlrft.cli.main import main
from vlrft.schema.secrets import REDACTED

CANARY = "canary-5f2c81"
TASK = """
import os
from dataclasses import dataclass
from vlrft.schema import Message, Sample, Task

def leaky(completion, sample):
    print("asking with", os.environ["GRADER_API_KEY"])
    raise ValueError(f"401 for https://user:{os.environ['GRADER_API_KEY']}@grader/x?api_key=canary-5f2c81-url")

@dataclass(frozen=True, kw_only=True)
class Options:
    hub_token: str = ""
    data: str = ""

def load(split, options):
    assert options.hub_token == "canary-5f2c81-option"
    return [Sample(id=f"{split}/{k}", messages=(Message(role="user", content=("2?",)),), answer="2") for k in range(4)]

task = Task(name="leaks", doc="Leaks.", splits=("train", "test"), load=load, options=Options,
            rewards={"count": 1.0}, graders={"strict": ("count",)}, gold=lambda s: f"<answer>{s.answer}</answer>")
"""
CONFIG = """
task:
  name: ./leaks.py
  options: {hub_token: canary-5f2c81-option, data: "https://me:canary-5f2c81-password@host/rows.zip"}
  rewards: {count: 1.0, "./leaks.py:leaky": {weight: 0.5, on_error: zero}}
policy: {build: {hidden_size: 32, layers: 1, vision_width: 32, vision_layers: 1, intermediate_size: 32}}
rollout: {max_tokens: 4}
eval: {split: test}
log: {trackers: [tensorboard], zero_reward_steps: 0}
stages: [{algorithm: grpo, steps: 1, prompts_per_step: 2}]
"""


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a task and a config that contain canaries; others are in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRADER_API_KEY", f"{CANARY}-environment")
    monkeypatch.setenv("HF_TOKEN", f"{CANARY}-hub")
    (tmp_path / "leaks.py").write_text(TASK)
    (tmp_path / "c.yaml").write_text(CONFIG)
    return tmp_path


def leaks(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if CANARY.encode() in path.read_bytes()]


def test_no_canary_reaches_the_files_or_the_output_of_a_run(
    planted: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "c.yaml", "--out", "run"]) == 0
    output = "".join(capfd.readouterr())
    assert leaks(planted / "run") == []
    assert CANARY not in output
    assert f"asking with {REDACTED}" in output
    assert "on_error: zero" in output
    assert f"https://{REDACTED}@host/rows.zip" in (planted / "run" / "config.yaml").read_text()

    assert (
        main(["train", "c.yaml", "--out", "run", "--resume"]) == 0
    )  # secrets may differ; the rest is the same
    assert main(["show", "run/config.yaml"]) == 2
    message = capfd.readouterr().err
    assert (
        "run/config.yaml: task.options.hub_token: is <redacted>: a run's config.yaml keeps no secrets"
        in message
    )
    options = "{hub_token: canary-5f2c81-option, data: x}"
    given = [f"task.options={options}", f"stages.0.task.options={options}"]
    assert main(["show", "run/config.yaml", *given]) == 0
    assert CANARY not in "".join(capfd.readouterr())


def test_no_canary_reaches_the_files_of_a_graded_file(planted: Path) -> None:
    (planted / "p.jsonl").write_text('{"id": "test/0", "output": "<answer>2</answer>"}\n')
    options = [
        "options.hub_token=canary-5f2c81-option",
        "options.data=https://me:canary-5f2c81-password@host/rows.zip",
    ]
    words = ["score", "./leaks.py", *options, "--predictions", "p.jsonl"]
    assert main([*words, "--json", "graded/s.json", "--html", "graded/s.html"]) == 0
    assert leaks(planted / "graded") == []
    assert f"https://{REDACTED}@host/rows.zip" in (planted / "graded" / "s.json").read_text()


def test_no_canary_reaches_the_message_of_a_failure_or_its_crash_report(
    planted: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["train", "c.yaml", "--out", "failed", "task.rewards={./leaks.py:leaky: 1.0}"]) == 1
    monkeypatch.setattr("tempfile.tempdir", str(planted / "failed"))
    empty: dict[str, int] = {}
    monkeypatch.setattr(
        "vlrft.cli.commands.show.run", lambda args: empty[f"token={CANARY}-of-the-command"]
    )
    assert main(["show", "digits", f"hub_token={CANARY}-argument"]) == 1
    output = "".join(capfd.readouterr())
    assert CANARY not in output
    assert leaks(planted / "failed") == []
    (report,) = (planted / "failed").glob("vlrft-crash-*.txt")
    assert f"command   vlrft show digits hub_token={REDACTED}" in report.read_text()
    assert f"KeyError: 'token={REDACTED}'" in report.read_text()
