from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from vlrft.cli.commands import check
from vlrft.cli.main import main

TINY = """
task: {name: digits, options: {subtasks: [classify], test: 4}}
policy: {build: {hidden_size: 32, layers: 1, vision_width: 32, vision_layers: 1, intermediate_size: 32}}
rollout: {max_tokens: 4}
stages: [{algorithm: sft, steps: 1, prompts_per_step: 2}]
"""


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("arguments", [["list"], ["list", "--json"], ["show", "digits"]])
def test_light_commands_import_no_torch(arguments: list[str]) -> None:
    code = f"import sys; from vlrft.cli.main import main; main({arguments}); print('torch' in sys.modules)"
    assert run_python(code).splitlines()[-1] == "False"


def test_importing_the_package_imports_no_torch() -> None:
    assert (
        run_python("import sys, vlrft, vlrft.cli.main; print('torch' in sys.modules)") == "False\n"
    )


def test_engines_and_families_are_listed_and_engines_described(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["list", "engines", "--json"]) == 0
    engines = json.loads(capsys.readouterr().out)
    assert {"engine=single", "engine=deepspeed", "rollout.engine=hf"} <= set(engines)
    assert "stage" in engines["engine=deepspeed"]["settings"]
    assert main(["list", "families"]) == 0
    assert "qwen2_vl" in capsys.readouterr().out
    assert main(["show", "deepspeed"]) == 0
    shown = capsys.readouterr().out
    assert "settings:" in shown
    assert "  stage: " in shown


def test_list_prints_every_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    listing = json.loads(capsys.readouterr().out)
    assert "digits" in listing["tasks"]
    assert {"choice", "count", "boxes", "format"} <= set(listing["rewards"])
    assert main(["list", "algorithms", "--json"]) == 0
    methods = json.loads(capsys.readouterr().out)
    assert methods["gpg"]["reduction"] == "group"
    assert "reference log-probs" in methods["grpo"]["computes"]
    assert methods["gpg"]["computes"] == "log-probs of the action tokens"


def test_show_describes_a_config_a_task_a_reward_and_an_algorithm(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "c.yaml").write_text(TINY)
    assert main(["show", str(tmp_path / "c.yaml"), "seed=7"]) == 0
    assert "seed: 7" in capsys.readouterr().out
    for name, part in (
        ("digits", "splits: train"),
        ("boxes", "Intersection"),
        ("gpg", "α = P / P_valid"),
    ):
        assert main(["show", name]) == 0
        assert part in capsys.readouterr().out


def test_show_describes_things_in_the_users_own_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(
        "import dataclasses\nfrom vlrft.algorithms import ALGORITHMS\nfrom vlrft.plugins.find import find_task\n"
        "task = dataclasses.replace(find_task('digits'), name='mine')\n"
        "method = dataclasses.replace(ALGORITHMS['gpg'], name='method')\n"
        "def reward(completion, sample):\n    'Pays for nothing.'\n    return 0.0\n"
    )
    for name, part in (("task", "mine: "), ("method", "reduction: "), ("reward", "Pays for")):
        assert main(["show", f"{tmp_path}/own.py:{name}"]) == 0
        assert part in capsys.readouterr().out
    assert main(["show", f"{tmp_path}/own.py:nothing"]) == 2
    assert "has no 'nothing'" in capsys.readouterr().err


def test_check_needs_no_torch(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = find_spec
    monkeypatch.setattr(check, "find_spec", lambda name: None if name == "torch" else real(name))
    monkeypatch.setitem(sys.modules, "vlrft.policy.load", None)  # importing it would fail
    assert main(["check", "digits", "--limit", "2"]) == 0
    shown = capsys.readouterr().out
    assert "user: <image>" in shown
    assert "gold: <answer>" in shown


def test_check_grades_the_gold_answers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["check", "digits", "--limit", "8"]) == 0
    assert capsys.readouterr().out.count("8 of 8 gold answers earn full marks") == 3
    assert main(["check", "digits", "--limit", "8", "--split", "test"]) == 0
    assert capsys.readouterr().out.count("8 of 8 gold answers earn full marks") == 1
    (tmp_path / "bad.py").write_text(
        "import dataclasses\nfrom vlrft.plugins.find import find_task\n"
        "task = dataclasses.replace(find_task('digits'), gold=lambda sample: '<answer>x</answer>')\n"
    )
    assert main(["check", f"{tmp_path}/bad.py:task", "--limit", "3"]) == 1
    output = capsys.readouterr()
    assert "0 of 3 gold answers" in output.out
    assert "earns" in output.err


def test_train_then_eval_then_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config, run = tmp_path / "c.yaml", tmp_path / "run"
    config.write_text(TINY)
    assert main(["train", str(config), "--out", str(run)]) == 0
    output = capsys.readouterr()
    assert "classify" in output.out
    assert "report: " in output.out
    assert "evaluation after sft" in output.err
    model = str(run / "checkpoints" / "last")
    records = tmp_path / "eval.json"
    evaluate = [
        "eval",
        "--model",
        model,
        "--task",
        "digits",
        "--limit",
        "3",
        "--json",
        str(records),
    ]
    assert main([*evaluate, "options.subtasks=[classify]", "rollout.max_tokens=4"]) == 0
    assert "/3" in capsys.readouterr().out
    assert json.loads(records.read_text())["strict"]["n"] == 3
    assert len((tmp_path / "eval.records.jsonl").read_text().splitlines()) == 3
    assert main(evaluate) == 2
    assert "exists; use --overwrite" in capsys.readouterr().err
    assert main(["report", str(run)]) == 0
    assert main(["train", str(config), "--out", str(run)]) == 2
    assert main(["train", str(config), "--out", str(run), "--resume"]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train", "none.yaml"], 2, "none.yaml: cannot be read"),
        (["show", "countin"], 2, "unknown name 'countin'; did you mean counting?"),
        (["show", "nothing"], 2, "unknown name 'nothing'; `vlrft list`"),
        (["check", "digit"], 2, "did you mean digits?"),
        (["report", "nowhere"], 2, "no run here"),
        (["eval", "--model", "nowhere/at/all", "--task", "digits"], 2, "nowhere/at/all"),
        (["eval", "--model", "x", "--task", "digits", "--split", "dev"], 2, "no split 'dev'"),
    ],
)
def test_errors_are_one_line_with_a_code(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert main(arguments) == code
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_wrong_usage_is_code_2() -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["trian"])


def test_doctor_prints_versions_and_extras(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    assert "transformers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (
            "import sys\nsys.exit(5)",
            "cannot import {file} (SystemExit: 5, line 2)",
        ),
        (
            "from vlrft.schema import Task\nimport sys\n"
            "task = Task(name='t', doc='', options=dict, splits=('test',), load=lambda *a: sys.exit(4),"
            " rewards={{}}, graders={{'strict': ('choice',)}}, gold=lambda s: '')",
            "task t: its `load` of the test split raised SystemExit: 4 (pack.py:3)",
        ),
    ],
)
def test_the_exit_of_a_plugin_is_an_error_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, line: str
) -> None:
    file = tmp_path / "pack.py"
    file.write_text(source.replace("{{", "{").replace("}}", "}"))
    assert main(["check", str(file)]) in (1, 2)
    assert line.format(file=file) in capsys.readouterr().err


def test_any_other_exit_of_foreign_code_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(args: object) -> None:
        sys.exit(0)

    monkeypatch.setattr("vlrft.cli.commands.list.run", run)
    assert main(["list", "tasks"]) == 1
    assert "raised SystemExit: 0 (test_main.py:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["list", "taks"], "invalid choice: 'taks'; did you mean tasks? (choose from"),
        (
            ["train", "quickstart", "--resume", "runs/x"],
            "--resume takes no folder: vlrft train CONFIG --out runs/x --resume",
        ),
    ],
)
def test_a_wrong_argument_is_answered_with_the_right_one(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert expected in capsys.readouterr().err
