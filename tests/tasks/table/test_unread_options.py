"""An option that has no effect is refused, in one line that says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tasks.table.tables import load, rows, write_rows, write_table
from vlrft.cli.main import main
from vlrft.schema.errors import ConfigError

OTHER_KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "the radius of a number": (
        {"answer": "math", "radius": 20},
        "options.radius: has no effect with answer: math; it is of answer: point",
    ),
    "classes of a count": (
        {"answer": "count", "classes": ["cat", "dog"]},
        "options.classes: has no effect with answer: count; it is of answer: class",
    ),
    "choices of a number": (
        {"answer": "math", "choices": "options"},
        "options.choices: has no effect with answer: math; it is of answer: choice",
    ),
    "the number of a first choice": (
        {"answer": "class", "first_choice": 1},
        "options.first_choice: has no effect with answer: class; it is of answer: choice",
    ),
    "the unit of boxes that a reward of the user reads": (
        {"answer": "custom", "box_unit": "pixels", "box_corners": "xyxy"},
        "options.box_unit: has no effect with answer: custom; it is of answer: box, boxes, point",
    ),
    "the bounds of pictures": (
        {"answer": "math", "max_pixels": 802816},
        "options.max_pixels: has no effect without boxes: resized or box_unit: resized",
    ),
}


@pytest.mark.parametrize("case", OTHER_KINDS)
def test_an_option_of_other_answers_is_refused(case: str, tmp_path: Path) -> None:
    options, message = OTHER_KINDS[case]
    table = write_table(tmp_path, rows([1, 2], options=["1", "2"]))
    with pytest.raises(ConfigError) as caught:
        load(table, **options)
    assert message in str(caught.value)


def test_bounds_are_those_of_boxes_in_the_data_or_in_the_prompt(tmp_path: Path) -> None:
    table = write_table(tmp_path, rows([[0, 0, 28, 28]], "bbox"))
    boxes: dict[str, Any] = {"answer": "box", "box_corners": "xyxy", "max_pixels": 802816}
    assert load(table, box_unit="resized", **boxes).samples
    assert load(table, box_unit="pixels", boxes="resized", **boxes).samples


def test_a_seed_without_a_share_is_refused(tmp_path: Path) -> None:
    table = write_table(tmp_path, rows([1, 2]))
    with pytest.raises(ValueError, match=r"seed: has no effect without test_share"):
        load(table, answer="count", seed=3)


def test_options_that_prepared_rows_do_not_read_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(Path("data.jsonl"), [{"question": f"{k}?", "answer": k} for k in range(6)])
    command = ["data", "prepare", "table", "--from", "data.jsonl", "options.answer=count"]
    assert main([*command, "options.test_share=0.5", "--out", "ready"]) == 0
    assert load("ready", answer="count", prompt="{question} <answer>", system="Count.").samples
    capsys.readouterr()
    show = ["data", "show", "table", "options.data=ready", "options.question=question"]
    assert main([*show, "options.test_share=0.1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(
        "ready: options.question, options.test_share: have no effect on prepared data, whose rows are read already; leave "
        "them out, or prepare the data again with them"
    )
