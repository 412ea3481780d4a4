"""`vlrft new` writes complete files: they pass their doctests, and the commands in them work."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
import yaml

from vlrft.cli.main import main
from vlrft.config.load import load_config
from vlrft.plugins.find import find_reward, find_task
from vlrft.plugins.references import load_file
from vlrft.trainer.train import train


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_new_reward_passes_its_doctest_and_the_check_it_names(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "reward", "terse"]) == 0
    assert capsys.readouterr().out == (
        "wrote ./terse.py; next: vlrft check reward ./terse.py --task digits\n"
    )
    assert "my_reward" not in (here / "terse.py").read_text()
    module = load_file(Path("terse.py"))
    assert doctest.testmod(module) == doctest.TestResults(failed=0, attempted=4)
    assert find_reward("./terse.py") is module.terse
    assert main(["check", "reward", "./terse.py", "--task", "digits", "--limit", "12"]) == 0
    assert "no flaw found" in capsys.readouterr().out


def test_the_command_that_is_next_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "reward", "mine", "--out", "my rewards"]) == 0
    assert capsys.readouterr().out == (
        "wrote ./my rewards/mine.py; next: vlrft check reward './my rewards/mine.py' --task digits\n"
    )


def test_a_new_task_passes_its_check_and_trains_with_the_config_it_names(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "task", "colours", "--out", "packs"]) == 0
    assert "next: vlrft check ./packs/colours.py\n" in capsys.readouterr().out
    assert find_task("./packs/colours.py").name == "colours"
    assert main(["check", "./packs/colours.py"]) == 0
    assert "3 of 3 gold answers earn full marks" in capsys.readouterr().out
    text = (here / "packs" / "colours.py").read_text()
    config = yaml.safe_load(text.partition("contains\n")[2].partition('"""')[0])
    config["task"] = "./packs/colours.py"
    for stage in config["stages"]:
        stage["steps"] = 1
    (here / "colours.yaml").write_text(yaml.safe_dump(config))
    run = train(load_config("colours.yaml"), out=here / "run").folder
    assert "reward/choice" in (run / "metrics.jsonl").read_text()


@pytest.mark.parametrize("kind", ["reward", "task"])
def test_nothing_is_overwritten_without_the_option(
    here: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    (here / "mine.py").write_text("precious = 1\n")
    assert main(["new", kind, "mine"]) == 2
    assert "vlrft: mine.py exists; use --overwrite or another name or --out\n" in (
        capsys.readouterr().err
    )
    assert (here / "mine.py").read_text() == "precious = 1\n"
    assert main(["new", kind, "mine", "--overwrite"]) == 0
    assert "precious" not in (here / "mine.py").read_text()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my-reward", "cannot name a Python file and function; use another such as my_reward"),
        ("terse.py", "use another such as terse"),
        ("2much", "cannot name a Python file and function; use another\n"),
        ("class", "cannot name"),
        ("../up", "cannot name"),
        ("random", "would hide Python's module random"),
    ],
)
def test_a_bad_name_is_a_one_line_error(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    assert main(["new", "reward", name]) == 2
    output = capsys.readouterr().err
    assert message in output
    assert output.count("\n") == 1
    assert not list(here.iterdir())


def test_a_folder_that_cannot_be_written_is_a_one_line_error(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "file").write_text("")
    assert main(["new", "reward", "terse", "--out", "file"]) == 2
    assert "cannot be written" in capsys.readouterr().err
