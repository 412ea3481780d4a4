"""RefCOCO/+/g in each of the forms in which they are published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.makers import refcoco
from tests.fixtures.makers._tables import write_bytes, write_json
from tests.tasks.loaded import (
    assert_gold_earns_all,
    assert_same,
    dataset_folder,
    load_samples,
    prepare,
)
from vlrft.config import TaskConfig
from vlrft.plugins.find import find_task
from vlrft.rollout.gold import gold_text
from vlrft.rollout.task import load_task
from vlrft.schema import IMAGE, DataError
from vlrft.scoring.graders import Graders

root = dataset_folder(refcoco.make)
LADY = "the lady with the blue shirt"
FORMS = [  # split, data, options
    ("train", "rec_jsons_processed", {"images": "coco"}),
    ("train", "rec_jsons_processed.zip", {"images": "coco/train2014"}),
    ("val", "rec_jsons_processed", {"images": "coco", "dataset": "refcoco+"}),
    ("testA", "qwen", {"images": "coco"}),
    ("testA", "lmms", {}),
    ("val", "lmms", {"dataset": "refcocog"}),
]


def load(root: Path, split: str, data: str, **options: Any) -> Any:
    if "images" in options:
        options["images"] = str(root / options["images"])
    return load_samples("refcoco", split, root / data, **options)


@pytest.mark.parametrize(("split", "data", "options"), FORMS)
def test_every_form_gives_the_same_object(
    root: Path, split: str, data: str, options: dict[str, Any]
) -> None:
    """VLM-R1's issue 11 has its box in pixels and, truncated and a pixel smaller, in thousandths: 243, 468, 557, 745."""
    samples = load(root, split, data, **options)
    first = samples[0]
    assert first.answer == (243, 469, 558, 746)
    assert first.info["box"] == pytest.approx(refcoco.LADY_BOX)
    assert first.images[0].size == (427, 640)
    content = first.messages[0].content
    assert content[0] is IMAGE
    assert str(content[1]).startswith(f"Find what this describes: {LADY}\n")
    assert_gold_earns_all("refcoco", samples)


def test_a_row_with_several_expressions_is_several_samples(root: Path) -> None:
    samples = load(root, "testA", "lmms")
    assert [s.id for s in samples] == [f"refcoco/testA/{k}/{j}" for k in (0, 1) for j in (0, 1)]
    assert f"{LADY} again" in str(samples[1].messages[0].content[1])


def test_all_sets_follow_each_other(root: Path) -> None:
    samples = load(root, "train", "rec_jsons_processed", images="coco", dataset="all")
    names = [s.tags["dataset"] for s in samples]
    assert names == ["refcoco"] * 2 + ["refcoco+"] * 2 + ["refcocog"] * 2
    task = find_task("refcoco")
    records = [Graders.of(task).record(s, gold_text(task, s)) for s in samples]
    assert task.metrics is not None
    assert list(task.metrics(records, "strict")) == [
        *("Acc@0.5", "mIoU", "Acc@0.7"),
        *("Acc@0.5 refcoco", "Acc@0.5 refcoco+", "Acc@0.5 refcocog"),
    ]


def test_the_released_prompt_is_vlm_r1s_and_asks_for_json(root: Path) -> None:
    options = {"images": "coco", "prompt": "released", "boxes": "resized"}
    samples = load(root, "val", "rec_jsons_processed", **options)
    assert samples[0].messages[0].content[1] == (
        "Please provide the bounding box coordinate of the region this sentence describes: "
        f"{LADY}. First output the thinking process in <think> </think> tags and then output the final answer in "
        "<answer> </answer> tags. Output the final answer in JSON format."
    )
    task = find_task("refcoco")
    # 427 x 640 becomes 420 x 644: 103.93 · 420 / 427 = 102.2, here from thousandths
    assert samples[0].info["frame"] == (420, 644)
    text = gold_text(task, samples[0])
    assert text == '<think></think><answer>{"bbox_2d": [102, 302, 234, 480]}</answer>'
    record = Graders.of(task).record(samples[0], text)
    assert record.grades == {"strict": 1.0, "official": 1.0}
    assert_gold_earns_all("refcoco", samples)
    same_words = load(root, "testA", "lmms", prompt="released", boxes="resized")
    assert same_words[0].messages == samples[0].messages


def test_the_official_grader_of_the_clean_prompt_is_qwens(root: Path) -> None:
    task = find_task("refcoco")
    sample = load(root, "testA", "lmms")[0]
    assert Graders.of(task).record(sample, gold_text(task, sample)).grades["official"] == 1.0
    resized = load(root, "testA", "lmms", boxes="resized")[0]
    assert "official" not in Graders.of(task).record(resized, "").grades


def test_prepared_rows_are_the_raw_ones(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    more = ("--split", "val", f"options.images={root / 'coco'}", "options.dataset=all")
    assert prepare("refcoco", root / "rec_jsons_processed.zip", out, *more) == {"val": {}}
    raw = load(root, "val", "rec_jsons_processed.zip", images="coco", dataset="all")
    assert_same(load_samples("refcoco", "val", out), raw)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("classic", {}, "is a pickle, which may run any code"),
        ("rec_jsons_processed", {}, "no picture train2014/COCO_train2014_000000581857.jpg"),
        ("qwen", {}, "no train split; looked for"),
        ("lmms", {}, "no train split; looked for"),
    ],
)
def test_what_is_missing_is_named(
    root: Path, data: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load(root, "train", data, **options)


def test_a_box_outside_its_picture_is_a_defect(tmp_path: Path) -> None:
    rows = [refcoco.json_row(0, refcoco.LADY, "x", [500.0, 0.0, 600.0, 9.0])]
    write_json(tmp_path / "refcoco_val.json", rows)
    write_bytes(tmp_path / refcoco.LADY, b"")
    with pytest.raises(DataError, match="outside the picture of 427 x 640 pixels"):
        load_samples("refcoco", "val", tmp_path)


def test_the_released_prompt_needs_resized_boxes() -> None:
    with pytest.raises(ValueError, match="boxes: resized"):
        load_task(TaskConfig(name="refcoco", options={"prompt": "released"}), "val")
