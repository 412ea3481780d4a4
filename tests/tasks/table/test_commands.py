"""The commands on a table: show, list, data show and prepare, check, train, score, compare and check reward."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tasks.table.tables import rows, write_rows, write_table
from vlrft.cli.main import main

PIXELS = ["options.box_unit=pixels", "options.box_corners=xyxy"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path, rows([20, 1, 2, 3]))


def test_show_says_which_rewards_the_options_choose(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "table"]) == 0
    assert (
        "rewards: options.answer is not set; it says what the gold answers are, and chooses"
        in capsys.readouterr().out
    )
    assert main(["show", "table", "options.answer=box"]) == 0
    assert "rewards: boxes × 1.0, format × 1.0" in capsys.readouterr().out
    assert main(["show", "table", "options.answer=bix"]) == 2
    assert "unknown name 'bix'; known: box, boxes, point, choice" in capsys.readouterr().err
    assert main(["list", "tasks"]) == 0
    assert "table" in capsys.readouterr().out


def test_data_show_says_what_was_taken_and_draws_boxes(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(Path("boxes.jsonl"), rows([[20, 10, 120, 60]] * 12, "bbox", image="0.png"))
    command = ["data", "show", "table", "options.data=boxes.jsonl", "options.answer=box", *PIXELS]
    assert main([*command, "--html", "sheet.html"]) == 0
    output = capsys.readouterr()
    for line in (
        "  rows: all rows",
        "  question: question (the only candidate)",
        "  gold answer: bbox (the only candidate)",
        "  boxes: pixels, xyxy",
        "    answer: [100, 100, 600, 600]   images: 200 × 100",
    ):
        assert f"{line}\n" in output.out
    assert output.out.count("    answer: ") == 10
    assert "test: " in output.err
    assert "left:10.0%;top:10.0%;width:50.0%;height:50.0%" in Path(
        "sheet.html"
    ).read_text().replace(" ", "")


def test_an_ambiguous_table_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(Path("data.jsonl"), rows([1], gold=2))
    for command in (["data", "show"], ["check"], ["data", "prepare", "--out", "ready"]):
        assert main([*command, "table", "options.data=data.jsonl", "options.answer=count"]) != 0
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(
            "vlrft: data.jsonl: the gold answer may be `answer` (1) or `gold` (2)"
        )


def test_check_goes_on_without_a_test_split(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.cli.commands.check.show_prompt", lambda loaded: None)
    assert main(["check", "table", "options.data=data.jsonl", "options.answer=count"]) == 0
    output = capsys.readouterr()
    assert "train: 4 of 4 gold answers earn full marks" in output.out
    assert "test: not checked: " in output.err


def test_prepared_rows_know_their_kind(capsys: pytest.CaptureFixture[str]) -> None:
    table = rows([20, 1, 2, "many"])
    write_rows(Path("data.jsonl"), table)
    command = ["data", "prepare", "table", "--from", "data.jsonl", "options.answer=count"]
    assert main([*command, "options.test_share=0.5", "--out", "ready"]) == 0
    lists = [Path(f"ready/{split}.defects.jsonl").read_text() for split in ("train", "test")]
    (defect,) = "".join(lists).splitlines()
    assert "'many' is not a whole number" in json.loads(defect)["detail"]
    assert main(["data", "show", "table", "options.data=ready", "--split", "test"]) == 0
    assert "test: 1 sample" in capsys.readouterr().out
    assert main(["show", "table", "options.data=ready"]) == 0
    assert "rewards: count × 1.0" in capsys.readouterr().out
    assert (
        main(
            [
                "data",
                "show",
                "table",
                "options.data=ready",
                "options.answer=math",
                "--split",
                "test",
            ]
        )
        == 1
    )
    assert (
        "prepared with options.answer=count; prepare the data again for math"
        in capsys.readouterr().err
    )


def write_outputs(name: str, answers: list[int]) -> str:
    outputs = [
        {"id": f"train/{k}", "output": f"<answer>{answer}</answer>"}
        for k, answer in enumerate(answers)
    ]
    return str(write_rows(Path(name), outputs))


def test_score_and_compare_grade_by_the_kind_of_answers(capsys: pytest.CaptureFixture[str]) -> None:
    for name, answers in {"a": [0, 1, 0, 0], "b": [20, 1, 2, 0]}.items():
        command = [
            "score",
            "table",
            "options.answer=count",
            "--data",
            "data.jsonl",
            "--split",
            "train",
        ]
        outputs = write_outputs(f"{name}.jsonl", answers)
        assert main([*command, "--predictions", outputs, "--json", f"{name}.json"]) == 0
    assert "3/4" in capsys.readouterr().out
    assert main(["compare", "a.json", "b.json"]) == 0
    assert "+50.00" in capsys.readouterr().out


def test_columns_become_tags(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(Path("data.jsonl"), rows([1, 2], place="sea"))
    command = ["data", "show", "table", "options.data=data.jsonl", "options.answer=count"]
    assert main([*command, "options.tags=[place]"]) == 0
    assert "  place: sea 2" in capsys.readouterr().out
    assert main([*command, "options.tags=[answer]"]) == 2
    assert "'answer' is a tag of the rewards" in capsys.readouterr().err


def test_prepared_data_of_another_task_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ready").mkdir()
    Path("ready/manifest.json").write_text(json.dumps({"task": "geoqa", "splits": {}}))
    assert main(["data", "show", "table", "options.data=ready"]) == 1
    assert "ready: holds the data of task geoqa" in capsys.readouterr().err


def test_score_needs_no_data_where_the_outputs_have_gold_answers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    outputs = [{"id": "a", "output": "<answer>(0,0),(10,10)</answer>", "answer": [0, 0, 10, 10]}]
    write_rows(Path("outputs.jsonl"), outputs)
    command = ["score", "table", "options.answer=box", "--predictions", "outputs.jsonl"]
    assert main(command) == 0
    assert "mIoU" in capsys.readouterr().out


def test_check_reward_probes_with_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["check", "reward", "count", "--task", "table", "options.data=data.jsonl"]
    main([*command, "options.answer=count"])
    assert "applies to 4 of 4 samples" in capsys.readouterr().out


def test_a_reward_s_weight_is_changed_on_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    change = ["task.options.answer=count", "task.rewards.format=0.25"]
    assert main(["show", "table", *change]) == 0
    assert "count: 1.0\n    format: 0.25\n" in capsys.readouterr().out
    assert main(["show", "table", *reversed(change)]) == 2
    assert (
        "the rewards of table follow from its options, which come before them"
        in capsys.readouterr().err
    )


RUN = """
task: {name: table, options: {data: data.jsonl, answer: count}}
policy: {build: {family: qwen2_vl}}
rollout: {group_size: 2, max_tokens: 4}
stages: [{algorithm: sft, steps: 1, prompts_per_step: 2}, {algorithm: grpo, steps: 1, prompts_per_step: 2}]
"""


def test_two_steps_are_trained_from_a_table_without_a_test_split(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("run.yaml").write_text(RUN)
    assert main(["train", "run.yaml", "--out", "run"]) in (0, 3)
    assert len(Path("run/metrics.jsonl").read_text().splitlines()) == 2
    output = capsys.readouterr()
    assert "trains without evaluations: data.jsonl: no test split" in output.out + output.err
    assert not Path("run/evals.jsonl").exists()
    assert Path("run/report.html").exists()
