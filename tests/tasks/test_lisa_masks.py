"""gIoU and cIoU by the masks of a SAM model, in scoring and in evaluating."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from vlrft.tasks.lisa.polygons import paint

import vlrft.data.row_samples
from tests.conftest import Tiny
from tests.fakes.tiny_sam import masks_of, save
from tests.fixtures.makers.lisa import SQUARE, WITHIN, make, shape
from tests.tasks.loaded import dataset_folder
from vlrft.cli.main import main
from vlrft.vision.masks import overlap

SIZE = (640, 427)
BOXES = ["(156,117),(470,588)", "(625,117),(783,354)", "nothing", "(0,0),(1000,1000)"]

raw = dataset_folder(make, "raw")


@pytest.fixture(scope="module")
def sam(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save(tmp_path_factory.mktemp("sam"))


@pytest.fixture
def scored(raw: Path, tmp_path: Path) -> Callable[..., tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The metrics and the records of two answers to each picture."""
    rows = [
        {"id": f"test/7_{k}/0", "output": f"<answer>{box}</answer>"}
        for turn in (BOXES, BOXES[::-1])
        for k, box in enumerate(turn, 1)
    ]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))

    def score(*more: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        command = ["score", "lisa", "--predictions", str(tmp_path / "p.jsonl"), "--data", str(raw)]
        out = tmp_path / "o.json"
        assert main([*command, *more, "--json", str(out), "--overwrite"]) == 0
        lines = (tmp_path / "o.records.jsonl").read_text().splitlines()
        return json.loads(out.read_text())["strict"]["metrics"], [json.loads(x) for x in lines]

    return score


def by_transformers(raw: Path, row: dict[str, Any]) -> list[int]:
    """The overlap of a record, computed from the picture and the box by transformers alone."""
    from PIL import Image

    name = row["id"].split("/")[1]
    shapes = json.loads((raw / f"test/{name}.json").read_text())["shapes"]
    target = paint(shapes, SIZE)
    corners = row["output"].removeprefix("<answer>").removesuffix("</answer>")
    if corners == "nothing":
        return list(overlap(None, target))
    x1, y1, x2, y2 = (int(v) for v in corners.replace("(", "").replace(")", "").split(","))
    box = (x1 * 0.64, y1 * 0.427, x2 * 0.64, y2 * 0.427)
    with Image.open(raw / f"test/{name}.jpg") as picture:
        [mask] = masks_of(picture.convert("RGB"), [box])
    return list(overlap(mask.astype("uint8"), target))


def test_metrics_are_computed_from_the_masks_of_the_model(
    raw: Path, sam: str, scored: Callable[..., Any]
) -> None:
    filled, plain = scored()
    metrics, records = scored(f"options.masks={sam}")
    expected = [by_transformers(raw, row) for row in records]
    assert [r["output"] for r in records] == [r["output"] for r in plain]
    assert [r["info"]["overlap"] for r in records] == expected
    ious = [i / u for i, u in expected]
    assert metrics["gIoU"]["score"] == pytest.approx(sum(ious) / len(ious))
    inner, outer = map(sum, zip(*expected, strict=True))
    assert metrics["cIoU"]["score"] == pytest.approx(inner / outer)
    assert metrics["gIoU"]["score"] != filled["gIoU"]["score"]
    for name in ("mIoU", "Acc@0.5", "Acc@0.7"):  # of boxes, whatever their masks
        assert metrics[name] == filled[name]
    assert all("overlap" not in r["info"] for r in plain)


def test_an_evaluation_stores_the_overlaps_with_the_answers(
    raw: Path, sam: str, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tiny policy answers without a box: the union, stored with each answer, is the target."""
    tiny("qwen2_vl").save(tmp_path / "model")
    out = tmp_path / "e.json"
    command = ["eval", "--model", str(tmp_path / "model"), "--task", "lisa", "--split", "test"]
    command += [f"options.data={raw}", f"options.masks={sam}", "rollout.max_tokens=4"]
    monkeypatch.setattr("vlrft.trainer.api.evaluate.chunk_size", lambda rollout, decoding: 2)
    assert main([*command, "--json", str(out), "policy.max_pixels=50176"]) == 0
    rows = [json.loads(x) for x in (tmp_path / "e.records.jsonl").read_text().splitlines()]
    square = paint([shape("target", SQUARE)], SIZE)
    assert rows[0]["info"]["overlap"] == [0, int(square.sum())]
    ignored = paint([shape("target", SQUARE), shape("ignore", WITHIN)], SIZE)
    assert rows[2]["info"]["overlap"] == [0, int((ignored == 1).sum())]
    assert json.loads(out.read_text())["strict"]["metrics"]["cIoU"]["score"] == 0.0


def test_filled_boxes_need_no_picture(
    scored: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a picture was opened")

    monkeypatch.setattr(vlrft.data.row_samples, "open_picture", refuse)
    metrics, records = scored()
    assert len(records) == 2 * len(BOXES)
    assert 0 < metrics["cIoU"]["score"] < 1


def test_a_source_that_is_no_sam_model_is_one_error_before_any_picture_is_read(
    raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.jsonl").write_text('{"id": "test/7_1/0", "output": ""}\n')
    command = ["score", "lisa", "--predictions", str(tmp_path / "p.jsonl"), "--data", str(raw)]
    assert main([*command, f"options.masks={tmp_path}"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 2, "what was read of the predictions, and the error"
    assert "no SAM model can be loaded from it" in lines[1]


def test_the_pack_and_its_metrics_load_without_torch() -> None:
    code = (
        "import sys, vlrft.tasks.lisa; print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
