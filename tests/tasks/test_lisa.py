from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from tests.data.makers.lisa import SENTENCE, make
from tests.qwen_tokenizer import needs_qwen, rendered
from vlrft.binding import BoundTask, bind
from vlrft.boxes import to_pixels
from vlrft.cli import main
from vlrft.grades import Graders
from vlrft.loading import task_config
from vlrft.plugins import find_task
from vlrft.schema import DataError, Record


@pytest.fixture
def raw(tmp_path: Path) -> str:
    make(tmp_path)
    return str(tmp_path / "raw")


def bound(raw: str, split: str, *overrides: str) -> BoundTask:
    return bind(task_config("lisa", [f"options.data={raw}", *overrides]), split)


def test_preparing_lists_pictures_without_a_target_or_an_instruction(
    raw: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "ready")
    assert main(["data", "prepare", "lisa", "--from", raw, "--out", out]) == 0
    assert "train: 5 rows" in capsys.readouterr().out
    lines = (tmp_path / "ready" / "train.defects.jsonl").read_text().splitlines()
    told = {row["id"]: row["detail"] for row in map(json.loads, lines)}
    assert set(told) == {"train/100_4", "train/100_5"}
    assert "no target is left" in told["train/100_4"]
    assert "no instruction" in told["train/100_5"]
    one = bound(out, "train").samples
    assert [s.id for s in one] == [
        *(f"train/100_1/{k}" for k in range(3)),
        "train/100_2",
        "train/100_3",
    ]
    assert bound(out, "train", "options.box=first_shape").samples[4].answer != one[4].answer
    assert main(["check", "lisa", "--limit", "9", f"options.data={out}"]) == 0
    with pytest.raises(DataError, match="prepare"):
        bound(raw, "train")


def test_the_gold_box_is_around_the_whole_target_or_the_first_shape_as_released(raw: str) -> None:
    strict = {s.id: s for s in bound(raw, "test").samples}
    first = {s.id: s for s in bound(raw, "test", "options.box=first_shape").samples}
    assert to_pixels(strict["test/7_1/0"].answer, 640, 427) == (100, 50, 301, 251)
    assert first["test/7_1/0"].answer == (156, 117, 468, 585)  # truncated
    assert to_pixels(strict["test/7_4"].answer, 640, 427) == (120, 50, 501, 151)
    assert first["test/7_4"].answer == (187, 163, 250, 257)  # one of two parts


def test_a_test_picture_is_asked_once_or_by_each_instruction(raw: str) -> None:
    assert [s.id for s in bound(raw, "val").samples][0] == "val/7_1/0"
    assert len(bound(raw, "val").samples) == 4
    assert len(bound(raw, "val", "options.instructions=all").samples) == 5


@needs_qwen
def test_released_prompts_word_for_word(raw: str) -> None:
    sample = bound(raw, "test", "options.prompt=released").samples[0]
    text = rendered(sample, 401408)
    asked = (
        "Output the bounding box in the image corresponding to the instruction: "
        f"{SENTENCE}. Output the thinking process in <think> </think> and your grouding box. "
        'Following "<think> thinking process </think>\n<answer>(x1,y1),(x2,y2)</answer>)" format.'
    )
    assert asked in text
    assert text.startswith("<|im_start|>system\nA conversation between User and Assistant.")


def record(raw: str, place: int, output: str, *overrides: str) -> Record:
    sample = bound(raw, "test", *overrides).samples[place]
    return Graders.of(find_task("lisa")).record(sample, output)


def test_figures_by_hand(raw: str) -> None:
    task = find_task("lisa")
    assert task.measures is not None
    exact = record(raw, 0, "<answer>(156,117),(470,588)</answer>")
    half = record(raw, 1, "a (1,2),(3,4) <answer>(625,117),(703,351)</answer>")
    none = record(raw, 2, "no box")
    found = task.measures([exact, half, none], "strict")
    assert found["mIoU"].values == pytest.approx((1.0, 0.5, 0.0), abs=0.02)
    assert found["Acc@0.5"].values[0] == 1.0
    assert found["Acc@0.7"].values == (1.0, 0.0, 0.0)
    each = found["gIoU"].values
    assert each == pytest.approx((1.0, 0.5, 0.0), abs=0.02)
    assert found["cIoU"].aggregate is not None
    square, beside, ring = 201 * 201, 101 * 101, 201 * 201 - 41 * 41
    by_hand = (square + beside / 2) / (square + beside + ring)
    assert found["cIoU"].aggregate(range(3)) == pytest.approx(by_hand, abs=0.01)
    official = task.measures([exact, half, none], "official")
    assert official["mIoU"].values[1] == 0.0  # the first box anywhere


def test_options_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="first_shape"):
        TypeAdapter(find_task("lisa").options).validate_python({"box": "last"})
