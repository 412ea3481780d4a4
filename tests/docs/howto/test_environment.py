"""The example of docs/howto/environment.md, in a separate file, is checked, trained and evaluated as the page says."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.pages import commands, files, read_page, run_suite, write_files
from vlrft.advantages.find import ESTIMATORS, STEPS
from vlrft.algorithms import find_algorithm
from vlrft.cli.main import main
from vlrft.config import EnvConfig
from vlrft.config.load import load_config
from vlrft.envs import EnvPool
from vlrft.plugins.find import find_task
from vlrft.plugins.references import load_file
from vlrft.schema.errors import EnvError
from vlrft.trainer.train import train

PAGE = read_page("docs/howto/environment.md")
BLOCKS = files(PAGE)
COMMANDS = [command[1:] for command in commands(PAGE)]
SHORT = (
    "stages.0.steps=1",
    "stages.1.steps=1",
    "stages.0.prompts_per_step=3",
    "stages.1.prompts_per_step=2",
    "rollout.group_size=3",
    "policy.build.layers=1",
    "log.zero_reward_steps=0",
    "eval.limit=2",
    "log.groups_per_step=9",
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_files(PAGE, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def command(word: str) -> list[str]:
    """The page's first command with that word, in the folder of the test."""
    return next(c for c in COMMANDS if word in c)


def test_the_page_has_the_blocks_that_are_run_here() -> None:
    assert set(BLOCKS) == {"guess.py", "guess.yaml", "test_guess.py"}


def test_it_passes_the_suite(here: Path) -> None:
    assert run_suite(here / "test_guess.py") > 3


def test_its_demonstrations_earn_full_marks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command("./guess.py")) == 0
    output = capsys.readouterr().out
    assert "train: 24 of 24 gold answers earn full marks" in output
    assert "test: 6 of 6 gold answers earn full marks" in output
    assert "Find my number. It is from 1 to 30." in output


@pytest.mark.parametrize("context", ["rebuilt", "growing"])
def test_it_trains_and_is_evaluated(context: str, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = f"options.context={context}"
    assert main([*command("guess.yaml"), *SHORT, f"task.{chosen}", "task.env.workers=1"]) == 0
    run = "runs/guess"
    sft, gigpo = lines(f"{run}/metrics.jsonl")
    assert (sft["stage"], gigpo["stage"]) == ("sft", "gigpo")
    assert gigpo["env/errors"] == 0
    assert 1 <= gigpo["env/turns"] <= 5
    rows = [r for r in lines(f"{run}/rollouts.jsonl") if r["stage"] == "sft"]
    assert all(r["turns"][-1]["reward"] == 1.0 for r in rows)
    later = [turn["shown"] for r in rows for turn in r["turns"][1:]]
    growing = context == "growing"
    assert all((shown in ("Higher.", "Lower.")) == growing for shown in later)
    turns = [t for r in lines(f"{run}/rollouts.jsonl") for t in r["turns"]]
    assert {t["reward"] for t in turns if not t["valid"]} <= {-0.1}
    assert main([*command("eval"), chosen, "--limit", "2"]) == 0
    results = json.loads(Path("out/guess.json").read_text())
    assert list(results["strict"]["metrics"]) == ["success", "turns"]
    assert all(r["turns"] for r in lines("out/guess.records.jsonl"))
    assert "success" in capsys.readouterr().out


def test_gold_answers_narrow_the_range_that_the_environment_shows() -> None:
    page: Any = load_file(Path("guess.py"))
    (sample,) = [s for s in page.load("train", page.Options()) if s.answer == 22]
    env = page.Guess(sample)
    assert env.start().anchor == (1, 30)
    steps = [env.step(text) for text in page.gold(sample)]
    anchors = [s.observation.anchor for s in steps[:-1]]
    assert anchors == [(16, 30), (16, 22), (20, 22), (22, 22)]
    assert steps[-1].done
    assert steps[-1].scores == {"won": 1.0, "turns": 5.0}
    other = page.Guess(sample)
    assert not other.step("<answer>31</answer>").valid
    assert not other.step("no idea").valid
    assert (other.low, other.high) == (1, 30)


BREAKING = """
class Breaking(Guess):
    def step(self, text):
        if self.turns == 1 and self.number == 10:
            HOW
        return super().step(text)

task = replace(task, env=Breaking)
"""


def write_breaking_task(here: Path, how: str) -> None:
    """Writes the page's task with an environment of which one episode fails in its second turn."""
    text = "from dataclasses import replace\n" + BLOCKS["guess.py"] + BREAKING.replace("HOW", how)
    (here / "guess.py").write_text(text)


@pytest.mark.parametrize("on_error", ["raise", "keep"])
def test_an_evaluation_counts_a_failed_episode_as_failed_unless_on_error_is_raise(
    here: Path, on_error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_breaking_task(here, "raise KeyError('gone')")
    one_stage = "stages=[{algorithm: sft, steps: 1, prompts_per_step: 1}]"
    overrides = (*SHORT[4:], f"task.env.on_error={on_error}", one_stage)
    config = load_config("guess.yaml", overrides)
    if on_error == "raise":
        with pytest.raises(EnvError, match=r"sample guess/test/10: .*KeyError: 'gone'.* in turn 2"):
            train(config, out=here / "run")
        return
    train(config, out=here / "run")
    failed = [r for r in lines("run/evals.jsonl") if r["id"] == "guess/test/10"]
    assert [r["grades"]["strict"] for r in failed] == [0.0, 0.0]
    assert all("gone" in r["errors"]["environment"] for r in failed)
    assert "sample guess/test/10" in capsys.readouterr().err


def test_environments_next_to_one_that_killed_its_worker_are_started_again(here: Path) -> None:
    write_breaking_task(here, "import os; os._exit(3)")
    task = find_task("./guess.py")
    bad, good = (s for s in task.load("test", task.options()) if s.answer in (10, 20))
    host = EnvPool(f"{here}/guess.py:task", 1)
    (first, _), (second, _) = host.start([bad, good])
    host.step({first: "<answer>15</answer>", second: "<answer>15</answer>"})
    answers: Any = host.step({first: "<answer>7</answer>", second: "<answer>23</answer>"})
    host.shutdown()
    assert "exit code 3" in answers[first].message
    assert answers[second].observation.anchor == (16, 22)


def test_the_settings_and_names_of_the_page_exist() -> None:
    table = PAGE.partition("## task.env")[2].partition("\n## ")[0]
    names = re.findall(r"^\| `(\w+)", table, re.M)
    assert set(names) == {f.name for f in fields(EnvConfig)}
    printed = dict(re.findall(r"^\| `(\w+): ([^`]+)`", table, re.M))
    assert printed == {name: str(getattr(EnvConfig(), name)) for name in printed}
    assert {"gigpo", "standardised_turns"} <= ESTIMATORS.keys()
    assert {"centre", "scale", "add_step", "each_turn"} <= STEPS.keys()
    steps = re.search(r"advantage: (\[\{step.*?\}\])`", PAGE)
    assert steps is not None
    for choice in (yaml.safe_load(steps[1]), "gigpo", "standardised_turns"):
        assert find_algorithm({"name": "gmpo", "advantage": choice}).estimator.steps
    for name in ("gigpo", "gigpo_released", "gpg", "grpo", "gmpo", "gvpo"):
        assert find_algorithm(name)
