"""Slips of every day on the command line: one line that says what was meant, and exit code 2."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from vlrft.cli.main import main
from vlrft.policy.model_files import refuse_misspelled
from vlrft.reporting.trackers import build_trackers
from vlrft.schema.errors import ConfigError, TrackerError
from vlrft.trainer.api.evaluate import settings_of_task
from vlrft.trainer.api.score import score_config


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    last = tmp_path / "runs" / "demo" / "checkpoints" / "last"
    last.mkdir(parents=True)
    (last / "config.json").write_text("{}")
    (tmp_path / "mine.yaml").write_text("task: digits")
    prepared = tmp_path / "prepared"
    prepared.mkdir()
    (prepared / "manifest.json").write_text("{ broken")
    (tmp_path / "none.jsonl").write_text("")
    (tmp_path / "extends.yaml").write_text("extends: quickstart")
    (tmp_path / "runs" / "demo" / "config.yaml").write_text("task: digits")
    (tmp_path / "one.jsonl").write_text('{"id": "1", "output": "7", "answer": "7"}')
    (tmp_path / "dangling.yaml").symlink_to("nowhere.yaml")
    (tmp_path / "task.py").write_text("from vlrft.tasks.digits import task as mine")
    (tmp_path / "mine.py").write_text("def halve(completion, sample):\n    return 0.5\n")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code and what is printed on stderr."""
    try:
        code = main(words)
    except SystemExit as e:  # argparse's
        code = int(e.code or 0)
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("trian quickstart", "unknown command 'trian'; did you mean train?"),
        ("new", "usage: vlrft new {reward,task}"),
        ("check", "the following arguments are required: task\n"),
        ("train quickstart --learning_rate 1e-5", "settings are given as KEY=VALUE, this one as update.lr=…"),
        ("train configs/quickstart.yaml", "vlrft brings a config of that name: give quickstart"),
        ("train minne.yaml", "did you mean mine.yaml?"),
        ("show quickstart algorithm=grpoo", "unknown algorithm 'grpoo'; did you mean grpo?"),
        ("eval --model runs/demmo --task digits", "no such folder; did you mean runs/demo?"),
        ("eval --model runs/demo --task digits", "did you mean runs/demo/checkpoints/last?"),
        ("eval --model m --config quickstart update.lr=1", "has no effect on an evaluation"),
        ("eval --model m --config quickstart rollout.temperature=2", "has no effect on an evaluation; give eval.temperature"),
        ("eval --model m --task digits eval={'every':2}", "eval.every has no effect on an evaluation"),
        ("eval --model m --task digits policy.model=n", "give --model"),
        ("eval --model m --task digits policy.lora.rank=8", "policy.lora.rank=8: has no effect on an evaluation"),
        ("eval --model m --config quickstart policy.adapter=a", "policy.adapter=a: has no effect on an evaluation"),
        ("eval --model m --task digits --task counting", "--task: is given twice; give it once"),
        ("score counting --predictions none.jsonl --predictions none.jsonl", "--predictions: is given twice"),
        ("train quickstart --seed 3", "settings are given as KEY=VALUE, this one as seed=…"),
        ("train runs/demo", "give runs/demo/config.yaml"),
        ("train extends.yaml", "extends.yaml: extends, a path relative to this file: quickstart: cannot be read"),
        ("launch quickstart --ranks 2 ranks.count=3", "ranks.count=2: ranks.count=3 is given too; give one of them"),
        ("doctor quickstart --ranks 2 ranks.count=3", "ranks.count=2: ranks.count=3 is given too; give one of them"),
        ("score counting --predictions one.jsonl --split nosuch", "task counting has no split 'nosuch'; it has"),
        ("eval --model m --task digits eval.top_p=0.9", "eval: top_p 0.9 has no effect at temperature 0"),
        ("data show digits env.max_turns=3", "env.max_turns=3: has no effect on vlrft data show"),
        ("score digits --predictions one.jsonl rewards.count=3", "rewards.count=3: has no effect on outputs that are there already, as task digits has graders"),
        ("eval --model m --task digits rewards.count=3", "rewards.count=3: has no effect on an evaluation, which has no use for weights"),
        ("eval --model m --config quickstart task.rewards.count=3", "task.rewards.count=3: has no effect on an evaluation"),
        ("check reward format --task digits rewards.count=3", "rewards.count=3: has no effect on the check of a reward"),
        ("data show digits rewards.count=3", "rewards.count=3: has no effect on vlrft data show"),
        ("data show digits examples.count=1", "examples.count=1: has no effect on vlrft data show"),
        ("data prepare counting --out s on_bad=skip", "on_bad=skip: has no effect on vlrft data prepare"),
        ("data prepare counting --out s examples.count=1", "examples.count=1: has no effect on vlrft data prepare"),
        ("data prepare counting --out s rewards.length=1", "rewards.length=1: has no effect on vlrft data prepare, as task counting has"),
        ("show digits env.max_turns=3", "env.max_turns=3: has no effect on the description of a task"),
        ("check reward format --task digits env.max_turns=3", "env.max_turns=3: has no effect on the check of a reward"),
        ("export runs/demo --out x --name=", "--name: empty; leave the option out, or give a value"),
        ("show gpg seed=3", "seed=3: gpg is neither a config nor a task"),
        ("score digits --predictions p.jsonl env.max_turns=3", "env.max_turns=3: has no effect on outputs that are there already"),
        ("score counting --predictions p.jsonl --data a.jsonl options.data=b.jsonl", "options.data=b.jsonl is given too; give one"),
        ("show dangling.yaml", "dangling.yaml: cannot be read (No such file or directory)\n"),
        ("train quickstart seed=3 --nope", "unrecognized arguments: --nope\n"),
        ("check mine.yaml", "mine.yaml: is a config; give the name of its task"),
        ("check task.py:nope", "has no 'nope'; it has mine: give task.py:mine"),
        ("launch quickstart", "give --ranks N"),
        ("report .", "no run here"),
        ("doctor --memory 24GiB", "--memory needs a CONFIG: without one doctor lists packages and devices"),
        ("doctor --write fits.yaml", "--write needs a CONFIG"),
        ("doctor --ranks 2", "--ranks needs a CONFIG"),
        ("doctor quickstart --write none/fits.yaml", "--write none/fits.yaml: there is no folder none"),
        ("data show digits --from=", "data: --from: empty"),
        ("score geoqa --predictions one.jsonl --data=", "score: --data: empty; leave the option out, or give a value"),
        ("eval --model= --task digits", "eval: --model: empty; leave the option out, or give a value"),
        ("data prepare sat --synthetic 0 --out s", "data: --synthetic: 0 is out of range; allowed: at least 1\n"),
        ("data prepare sat --synthetic many --out s", "expected a whole number, at least 1; got 'many'\n"),
        ("data prepare sat --seed 1 --out s", "--seed: the rows of a published data set have no seed"),
        ("data prepare sat --html s.html --out s", "--html: vlrft data prepare has no use for it; vlrft data show has"),
        ("data show digits --max-prompt-tokens 9", "--max-prompt-tokens: vlrft data show has no use for it"),
        ("check reward mine.py --task digits", "has no 'mine'; it has halve: give"),
        ("show system:999", "no system of that number, 1 to 195, or name; `vlrft list systems` prints all"),
        ("check counting options.data=prepared", "manifest.json: not JSON"),
        ("check counting options.data=none.jsonl", "none.jsonl"),
    ],
)  # fmt: skip
def test_a_slip_is_a_wrong_use_and_says_what_was_meant(
    capsys: pytest.CaptureFixture[str], command: str, said: str
) -> None:
    code, error = run(capsys, *command.split(" "))
    assert said in error
    assert len(error.splitlines()) == 1 or "usage: " in error
    assert "huggingface.co" not in error  # nothing is asked for over the network
    assert code == 2


def test_a_task_is_described_with_the_rewards_that_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["show", "digits", "rewards.count=2", "rewards.format=null"]) == 0
    assert "rewards: choice × 1.0, count × 2.0, boxes × 1.0\n" in capsys.readouterr().out


def test_rewards_that_an_evaluation_scores_or_grades_with_are_taken(here: Path) -> None:
    """It stores the scores of a pack's answers by all rewards; those of a task without graders are its graders."""
    rows = [{"id": "1", "question": "Why?", "answer": "so"}]
    (here / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = ["options.data=t.jsonl", "options.answer=custom", "rewards={./mine.py:halve: 2.0}"]
    settings_of_task("table", "m", table)
    score_config("table", table, None)
    for item in ("rewards.length=0.5", "rewards.format=null", "rewards.count.on_error=zero"):
        settings_of_task("digits", "m", [item])
        with pytest.raises(ConfigError, match="has graders of its own"):
            score_config("digits", [item], None)


def test_help_for_new_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "new", "--help") == (0, "")


def test_a_hub_id_is_not_taken_for_a_misspelled_folder() -> None:
    refuse_misspelled("policy.model", "Qwen/Qwen2-VL-2B-Instruct")  # no folder Qwen here
    refuse_misspelled("policy.model", "runs/something_else")
    with pytest.raises(ConfigError, match=r"did you mean runs/demo/checkpoints/last\?"):
        refuse_misspelled("policy.model", "runs/demmo/checkpoints/last")


def test_a_report_without_an_evaluation_says_so(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    (here / "runs" / "demo" / "config.yaml").write_text("task: digits")
    (here / "runs" / "demo" / "summary.json").write_text("{}")
    assert main(["report", "runs/demo"]) == 0
    assert "no evaluation: runs/demo/summary.json has none" in capsys.readouterr().out


def test_a_tracker_that_is_there_but_cannot_be_imported_shows_why(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "wandb.py").write_text("import a_package_that_it_needs")
    monkeypatch.syspath_prepend(str(here))
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with pytest.raises(
        TrackerError, match="wandb is installed, but its import fails: No module named 'a_package"
    ):
        build_trackers(["wandb"], here)


def test_memory_without_a_unit_and_a_run_that_does_not_fit(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    model = {"model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 2}
    (here / "model").mkdir()
    (here / "model" / "config.json").write_text(json.dumps(model))
    code = main(["doctor", "geoqa_gpg", "policy.model=model", "device=cuda", "--memory", "8"])
    out = capsys.readouterr().out
    assert code == 1
    assert out.startswith("python ")
    assert "on a GPU with 8.00 GiB" in out.splitlines()[1]
    assert "does not fit" in out
