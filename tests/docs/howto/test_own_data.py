"""The commands of docs/howto/own_data.md in their order, on small tables."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.docs.pages import blocks, command, commands, files, read_page, write_files, write_images
from vlrft.cli.main import main
from vlrft.plugins.references import load_attribute

PAGE = read_page("docs/howto/own_data.md")
SHORT_RUN = (
    *("policy.build.family=qwen2_vl", "policy.build.layers=1", "log.zero_reward_steps=0"),
    *("stages=[{steps: 1, prompts_per_step: 2}]", "rollout.group_size=2", "rollout.max_tokens=4"),
    "eval.max_tokens=4",
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pictures").mkdir()
    for k in range(1, 7):
        Image.new("RGB", (56, 28), (40 * k, 0, 0)).save(f"pictures/{k}.jpg")
    (table,) = blocks(PAGE, "csv")
    more = (f"pictures/{k}.jpg,{'cat' if k % 2 else 'dog'}\n" for k in range(3, 7))
    Path("animals.csv").write_text(table + "".join(more))
    boxes = {"image": "pictures/1.jpg", "question": "The cat", "bbox": [2, 3, 20, 10]}
    Path("boxes.jsonl").write_text(json.dumps(boxes) + "\n")
    Path("mine.py").write_text("def mine(completion, sample):\n    return len(completion) / 99\n")


def test_the_first_lines_train_on_a_csv_of_pictures(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.cli.commands.check.show_prompt", lambda loaded: None)
    show, check, train = commands(PAGE)[:3]
    assert main(show[1:]) == 0
    assert "classes: 2 (cat, dog)" in capsys.readouterr().out
    assert main(check[1:]) == 0
    assert "6 of 6 gold answers earn full marks" in capsys.readouterr().out
    share = "task.options.test_share=0.1"
    assert share in train
    options = ["task.options.test_share=0.34" if item == share else item for item in train[1:]]
    assert main([*options, *SHORT_RUN, "--out", "run"]) in (0, 3)
    assert "test 2 samples" in capsys.readouterr().err
    assert Path("run/report.html").exists()


def test_the_commands_on_columns_boxes_prompts_and_prepared_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.cli.commands.check.show_prompt", lambda loaded: None)
    for words in ("options.answer_column=label", "options.box_unit=pixels", "options.prompt="):
        assert main(command(PAGE, words)) == 0, words
    assert "Choose from" not in capsys.readouterr().err
    assert Path("boxes.html").exists()
    assert main(command(PAGE, "data prepare table")) == 0
    assert main(command(PAGE, "--from data/animals")) == 0
    assert "warning" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", ["task.rewards=", "task.rewards.format", "task.options.data=data/animals"]
)
def test_the_configs_of_the_other_runs_choose_rewards(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(command(PAGE, "data prepare table"))
    assert main(["show", *command(PAGE, words)[1:]]) == 0
    assert "algorithm:" in capsys.readouterr().out


def test_the_page_lists_every_kind_of_answers_and_every_format() -> None:
    kinds: Any = load_attribute("vlrft.tasks.table.answers:kinds")
    formats: Any = load_attribute("vlrft.tasks.table.formats:formats")
    listed = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?`) \|", PAGE, re.M))))
    assert {*kinds(), *formats()} - {"columns"} <= listed


def test_the_task_of_the_last_section(capsys: pytest.CaptureFixture[str]) -> None:
    write_files(PAGE, Path())
    assert set(files(PAGE)) == {"charts.py"}
    write_images(Path("raw"), question="problem", answer="solution")
    with Path("raw/train.jsonl").open("a") as file:
        file.write(json.dumps({"problem": "Which?", "solution": "green"}) + "\n")
    assert main(command(PAGE, "prepare ./charts.py")) == 0
    (defect,) = Path("data/charts/train.defects.jsonl").read_text().splitlines()
    assert "incomplete row" in defect
    assert main(command(PAGE, "check ./charts.py")) == 0
    assert "4 of 4 gold answers earn full marks" in capsys.readouterr().out
