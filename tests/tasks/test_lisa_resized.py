"""LISA's boxes in pixels of the resized picture: the policy must resize alike, and one grader cannot read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from vlrft.rewards.boxes import visual_rft, visual_rft_eval

from tests.conftest import Tiny
from tests.fixtures.makers.lisa import make
from tests.tasks.loaded import load_samples
from vlrft.cli.main import main
from vlrft.config import TaskConfig
from vlrft.config.load import load_config
from vlrft.plugins.find import find_task
from vlrft.rollout.gold import gold_text
from vlrft.rollout.task import load_task
from vlrft.schema import DataError
from vlrft.schema.errors import ConfigError
from vlrft.trainer.setup import open_run

GOLD = ["(100,49),(303,247)", "(402,49),(504,149)", "(100,49),(303,247)", "(121,49),(504,149)"]
RESIZED = ("options.boxes=resized", "options.max_pixels=401408")


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lisa")
    make(folder)
    for defect in ("100_4", "100_5"):
        (folder / f"raw/train/{defect}.json").unlink()
    return folder / "raw"


def run(raw: Path, out: Path, *more: str) -> None:
    config = out.with_suffix(".yaml")
    config.write_text(
        f"task: {{name: lisa, options: {{data: {raw}}}}}\npolicy: {{build: {{family: qwen2_vl}}}}\n"
        "stages: [{steps: 1}]\neval: {split: val}\n"
    )
    run = open_run(load_config(str(config), more), out, resume=False, overwrite=True)
    with run.folder:
        run.close()


def test_a_run_whose_policy_resizes_otherwise_is_refused(raw: Path, tmp_path: Path) -> None:
    pixels = ("task.options.boxes=resized", "task.options.max_pixels=100352")
    with pytest.raises(ConfigError) as caught:
        run(raw, tmp_path / "run", *pixels)
    assert "\n" not in str(caught.value)
    for part in ("task lisa", "3136 to 100352 pixels", "policy.max_pixels"):
        assert part in str(caught.value)
    assert not (tmp_path / "run").exists()
    run(raw, tmp_path / "run", *pixels, "policy.min_pixels=3136", "policy.max_pixels=100352")
    run(raw, tmp_path / "run")  # thousandths suit any policy


def test_an_evaluation_whose_policy_resizes_otherwise_is_refused(
    raw: Path, tmp_path: Path, tiny: Tiny, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny("qwen2_5_vl").save(tmp_path / "model")
    command = ["eval", "--model", str(tmp_path / "model"), "--task", "lisa", "--split", "val"]
    command += [f"options.data={raw}", *RESIZED, "--limit", "1", "rollout.max_tokens=4"]
    assert main(command) == 2
    assert (
        "its answers are in pixels of images resized to 3136 to 401408" in capsys.readouterr().err
    )
    assert main([*command, "policy.min_pixels=3136", "policy.max_pixels=401408"]) == 0
    shown = capsys.readouterr()
    assert "official" not in shown.out
    told = "the official grader (boxes.visual_rft_eval) applies to none of these samples"
    assert told in shown.err


def test_boxes_in_another_unit_than_the_family_writes_are_warned_of(
    raw: Path, tmp_path: Path, tiny: Tiny
) -> None:
    thousandths = load_task(TaskConfig(name="lisa", options={"data": str(raw)}), "val")
    units = [tiny(family).box_unit for family in ("qwen2_vl", "qwen2_5_vl", "qwen2")]
    assert units == ["thousandths", "resized", None]
    same, other, unknown = map(thousandths.box_warning, units)
    assert (same, unknown) == (None, None)
    assert other is not None
    assert "options.boxes=thousandths, but models of this family" in other
    pixels = {"data": str(raw), "boxes": "resized"}
    resized = load_task(TaskConfig(name="lisa", options=pixels), "val")
    assert resized.box_warning("resized") is None
    digits = load_task(
        TaskConfig(name="digits", options={"subtasks": ["ground"], "test": 2}), "test"
    )
    assert digits.box_warning("resized") is None  # it has no such option


def test_the_released_graders_do_not_take_pixels_for_thousandths(raw: Path) -> None:
    here = load_samples("lisa", "test", raw, boxes="resized")[0]
    text = gold_text(find_task("lisa"), here)
    assert visual_rft_eval(text, here) is None
    with pytest.raises(DataError, match=r"sample test/7_1/0: .* read thousandths"):
        visual_rft(text, here)
    there = load_samples("lisa", "test", raw)[0]
    assert visual_rft(gold_text(find_task("lisa"), there), there) == 2.0


def test_answers_in_pixels_have_strict_metrics_only(
    raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    predictions = tmp_path / "p.jsonl"
    rows = [
        {"id": f"test/7_{k}/0", "output": f"<answer>{box}</answer>"}
        for k, box in enumerate(GOLD, 1)
    ]
    predictions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "o.json"
    command = ["score", "lisa", "--predictions", str(predictions), "--data", str(raw), *RESIZED]
    assert main([*command, "--json", str(out)]) == 0
    content = json.loads(out.read_text())
    assert (content["strict"]["score"], "official" in content) == (1.0, False)
    assert "has no metrics" in capsys.readouterr().err
    assert main([*command, "--grader", "official"]) == 1
    assert "the official grader applies to no sample" in capsys.readouterr().err


@pytest.mark.parametrize("pack", ["lisa", "refcoco", "detection"])
def test_bounds_of_the_resized_picture_are_refused_for_boxes_in_thousandths(pack: str) -> None:
    options = find_task(pack).options
    with pytest.raises(
        ValueError,
        match=r"max_pixels 50176: has no effect with boxes: thousandths; .* policy.max_pixels",
    ):
        options(max_pixels=50176)
    with pytest.raises(ValueError, match="min_pixels 784: has no effect"):
        options(min_pixels=784)
    assert options(boxes="resized", min_pixels=784, max_pixels=50176).max_pixels == 50176
    assert options().boxes == "thousandths"


def test_bounds_of_a_table_are_those_of_its_own_boxes_too() -> None:
    assert find_task("table").options(max_pixels=50176, box_unit="resized").max_pixels == 50176
