"""Detection: Visual-RFT's rows, COCO's annotation file, and the mean average precision against pycocotools' own path."""

from __future__ import annotations

import contextlib
import importlib
import io
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fixtures.makers import detection
from tests.fixtures.makers._tables import write_bytes, write_json
from tests.tasks.loaded import (
    assert_gold_earns_all,
    assert_same,
    dataset_folder,
    load_samples,
    prepare,
)
from vlrft.config import TaskConfig
from vlrft.evaluation.evaluate import compute_metrics
from vlrft.plugins.find import find_grader, find_task, load_attribute
from vlrft.rollout.gold import gold_text
from vlrft.rollout.task import load_task
from vlrft.schema import DataError, Sample
from vlrft.schema.errors import PluginError
from vlrft.scoring.graders import Graders

AveragePrecision: Any = load_attribute("vlrft.tasks.detection.average_precision:AveragePrecision")
Graded: Any = load_attribute("vlrft.tasks.detection.average_precision:Graded")
read_released_detections: Any = load_attribute(
    "vlrft.tasks.detection.released:read_released_detections"
)
root = dataset_folder(detection.make)
ALL = {"categories": ["bus", "train", "cat", "dog"]}


def load(root: Path, split: str, data: str, **options: Any) -> Sequence[Sample]:
    return load_samples("detection", split, root / data, **options)


def test_visual_rfts_rows_are_read_with_their_words(root: Path) -> None:
    samples = load(root, "train", "virft", prompt="released")
    assert [s.answer for s in samples] == [
        [[0, 568, 1000, 985]],
        [[0, 0, 1000, 1000]],
        [],
        [[45, 799, 387, 998], [23, 470, 261, 623]],
    ]
    assert [s.tags["category"] for s in samples] == ["bed", "bed", "pizza", "papaya"]
    assert samples[2].messages[0].content[1] == detection.PROBLEM.format("pizza")
    assert gold_text(find_task("detection"), samples[2]) == (
        "<think></think><answer>No Objects</answer>"
    )
    assert_gold_earns_all("detection", samples)


def test_an_annotation_file_is_asked_for_what_its_pictures_have(root: Path) -> None:
    samples = load(root, "test", "coco", **ALL)
    assert [s.id for s in samples] == ["test/37777/cat", "test/37777/dog", "test/87038/cat"]
    assert samples[0].answer == [[0, 0, 500, 500], [500, 500, 550, 567]]
    assert samples[2].answer == [[100, 100, 350, 433]]  # a crowd is no object to be found
    assert [o["crowd"] for o in samples[2].info["objects"]] == [False, True]
    assert samples[0].images[0].size == detection.SIZE
    assert_gold_earns_all("detection", samples)
    released = load(root, "test", "coco", prompt="released", **ALL)
    assert released[0].messages[0].content[1:3] == ("<image>\n" + detection.PROBLEM.format("cat"),)


def test_boxes_are_read_among_captions_and_pictures_of_other_splits(
    root: Path, tmp_path: Path
) -> None:
    """COCO's annotations/ has captions and keypoints with the same lists; other sets use file names again."""
    tree = detection.annotation_file()
    captions = {**tree, "annotations": [{"image_id": 37777, "id": 1, "caption": "a cat"}]}
    write_json(tmp_path / "annotations/captions_val2017.json", captions)
    write_json(tmp_path / "annotations/instances_val2017.json", tree)
    for image in tree["images"]:
        content = (root / "coco/val2017" / image["file_name"]).read_bytes()
        for folder in ("train2017", "val2017"):
            write_bytes(tmp_path / folder / image["file_name"], content)
    samples = load_samples("detection", "test", tmp_path, **ALL)
    assert [s.answer for s in samples] == [s.answer for s in load(root, "test", "coco", **ALL)]
    assert samples[0].images[0].size == detection.SIZE


def test_all_categories_may_be_asked_for(root: Path) -> None:
    samples = load(root, "test", "coco", ask="all", **ALL)
    assert len(samples) == 3 * 4
    assert sum(not s.answer for s in samples) == 9
    assert_gold_earns_all("detection", samples)


def test_an_existence_map_leaves_objects_to_be_missed(root: Path) -> None:
    """The dog of picture 37777 and the cats of 87038 are not asked for: they count as missed, whatever is answered."""
    samples = load(root, "test", "coco", ask=str(root / "exist_map.json"), **ALL)
    assert [s.id for s in samples] == ["test/37777/cat", "test/87038/dog", "test/252219/cat"]
    missed = [len(s.info.get("missed", ())) for s in samples]
    assert missed == [0, 1, 1]
    task = find_task("detection")
    records = [Graders.of(task).record(s, gold_text(task, s)) for s in samples]
    assert task.metrics is not None
    scores = task.metrics(records, "strict")
    assert scores["AP cat"].aggregate is not None
    # two of three cats: precision 1 up to recall 2/3, which 67 of 101 recalls do not exceed
    assert scores["AP cat"].aggregate(range(3)) == pytest.approx(67 / 101)


def test_hand_computed_precisions() -> None:
    """A hit, a false box, and a box with an IoU of 0.62, in this order. Up to a recall of 0.5 (51 of 101 points) precision
    is 1; then, for the three thresholds that 0.62 passes, it is 2/3."""
    things = [{"box": [0, 0, 100, 100], "area": 10000.0, "crowd": False}]
    graded = [
        Graded(
            category="cat",
            objects=things,
            detections=[((0, 0, 100, 100), 0.9), ((200, 200, 300, 300), 0.8)],
        ),
        Graded(category="cat", objects=things, detections=[((0, 0, 62, 100), 0.7)]),
    ]
    precision = AveragePrecision(graded)
    high, low = (51 + 50 * 2 / 3) / 101, 51 / 101
    assert precision.value("all", 0.5) == pytest.approx(high)
    assert precision.value("all", 0.75) == pytest.approx(low)
    assert precision.value("all") == pytest.approx((3 * high + 7 * low) / 10)
    assert precision.value("small") == -1.0
    once, first = np.array([1, 1]), np.array([2, 0])
    assert precision.resample(once, "all") == pytest.approx((3 * high + 7 * low) / 10)
    assert precision.resample(first, "all") == pytest.approx(1.0)  # the false box comes last
    assert precision.resample(np.array([0, 1]), "all", 0.5) == pytest.approx(1.0)
    assert precision.resample(np.array([0, 0]), "all", 0.5) == pytest.approx(high)  # undefined


def random_case(seed: int) -> list[Any]:
    draw = random.Random(seed)

    def box() -> tuple[float, float, float, float]:
        x, y = draw.uniform(0, 300), draw.uniform(0, 200)
        side = draw.choice((12, 20, 50, 80, 150, 300))
        return x, y, x + side * draw.uniform(0.5, 1), y + side * draw.uniform(0.5, 1)

    graded: list[Any] = []
    for _ in range(40):
        boxes = [box() for _ in range(draw.randrange(4))]
        things = [
            {"box": b, "area": (b[2] - b[0]) * (b[3] - b[1]) * 0.8, "crowd": draw.random() < 0.1}
            for b in boxes
        ]
        near = [tuple(v + draw.uniform(-6, 6) for v in b) for b in boxes if draw.random() < 0.8]
        far = [box() for _ in range(draw.randrange(3))]
        found = [(b, round(draw.random(), 1)) for b in (*near, *far)]  # with equal confidences
        graded.append(Graded(category=draw.choice("abc"), objects=things, detections=found))
    return graded


def test_precisions_are_those_of_pycocotools_from_files(tmp_path: Path) -> None:
    """The same boxes through COCO(file).loadRes(file), as Visual-RFT's CocoDetectionEvaluator does it."""
    graded = random_case(7)
    names = sorted({g.category for g in graded})
    where = [(k, names.index(g.category) + 1) for k, g in enumerate(graded, 1)]
    truth = {
        "images": [{"id": k} for k, _ in where],
        "categories": [{"id": k, "name": n} for k, n in enumerate(names, 1)],
        "annotations": [
            {
                "id": 1000 * k + j,
                "image_id": k,
                "category_id": c,
                "bbox": [b[0], b[1], b[2] - b[0], b[3] - b[1]],
                "area": thing["area"],
                "iscrowd": int(thing["crowd"]),
            }
            for (k, c), g in zip(where, graded, strict=True)
            for j, thing in enumerate(g.objects)
            for b in [thing["box"]]
        ],
    }
    results = [
        {
            "image_id": k,
            "category_id": c,
            "bbox": [b[0], b[1], b[2] - b[0], b[3] - b[1]],
            "score": s,
        }
        for (k, c), g in zip(where, graded, strict=True)
        for b, s in g.detections
    ]
    write_json(tmp_path / "truth.json", truth)
    write_json(tmp_path / "results.json", results)
    coco, cocoeval = map(importlib.import_module, ("pycocotools.coco", "pycocotools.cocoeval"))
    with contextlib.redirect_stdout(io.StringIO()):
        loaded = coco.COCO(str(tmp_path / "truth.json"))
        theirs = cocoeval.COCOeval(loaded, loaded.loadRes(str(tmp_path / "results.json")), "bbox")
        theirs.evaluate()
        theirs.accumulate()
        theirs.summarize()
    ours = AveragePrecision(graded)
    asked: list[tuple[str, float | None]] = [("all", None), ("all", 0.5), ("all", 0.75)]
    asked += [("small", None), ("medium", None), ("large", None)]
    assert [ours.value(*a) for a in asked] == pytest.approx(list(theirs.stats[:6]), abs=1e-12)
    once = np.ones(len(graded), dtype=np.int64)
    for a in asked:
        assert ours.resample(once, *a) == pytest.approx(ours.value(*a), abs=1e-9)
    for name in ours.categories:
        assert ours.resample(once, "all", None, name) == pytest.approx(
            ours.value("all", None, name), abs=1e-9
        )


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vlrft.evaluation.bootstrap.RESAMPLES", 50)


@pytest.mark.usefixtures("few_resamples")
def test_an_evaluation_has_intervals_and_both_graders(root: Path) -> None:
    samples = load(root, "test", "coco", **ALL)
    task = find_task("detection")
    outputs = [gold_text(task, s) for s in samples]
    outputs[1] = "[{'Position': [250, 333, 450, 533], 'Confidence': 0.9"  # no tag, truncated
    graders = Graders.of(task)
    records = [graders.record(s, text) for s, text in zip(samples, outputs, strict=True)]
    result = compute_metrics(task, records).graded
    assert list(result["strict"]) == [
        *("mAP", "AP50", "AP75", "AP small", "AP medium", "AP large", "AP cat", "AP dog")
    ]
    assert result["strict"]["mAP"].score == pytest.approx(0.5)  # of cats 1, of dogs 0
    low, high = result["strict"]["mAP"].ci
    assert 0 <= low <= 0.5 <= high <= 1
    assert result["official"]["mAP"].score == 1.0  # it completes a truncated list


@pytest.mark.usefixtures("few_resamples")
def test_without_any_box_precision_is_0(root: Path) -> None:
    samples = load(root, "test", "coco", **ALL)
    task = find_task("detection")
    records = [Graders.of(task).record(s, "") for s in samples]
    result = compute_metrics(task, records).graded
    assert {m.score for metrics in result.values() for m in metrics.values()} == {0.0}


@pytest.mark.parametrize(
    ("output", "boxes"),
    [
        ("<answer>[{'Position': [1, 2, 3, 4], 'Confidence': 0.5}]</answer>", [(1, 2, 3, 4, 0.5)]),
        ("[{'Position': [1, 2, 3, 4], 'Confidence': 7}]", [(1, 2, 3, 4, 7)]),  # no bound, no tag
        ("<answer>[{'Position': [1, 2, 3, 4], 'Confidence': 1}, ...]</answer>", [(1, 2, 3, 4, 1)]),
        (
            "<answer>[{'Position': [1, 2, 3, 4], 'Confidence': 1}, {'Position': [5, 6</answer>",
            [(1, 2, 3, 4, 1)],
        ),
        ("<answer>[{'Position': [1, 2, 3, 4], 'Confidence': 1}", []),  # an opened tag is text
        (
            "<answer>[{'Position': [1, 2, 3, 4], 'Confidence': 1}, "
            "{'Position': [1, 2, 3, 4], 'Confidence': 0.1}]</answer>",
            [(1, 2, 3, 4, 1)],
        ),
        ("<answer>[[{'Position': [9, 9, 1, 1], 'Confidence': 1}]]</answer>", [(9, 9, 1, 1, 1)]),
        ("<answer>\n[{'Position': [1, 2, 3, 4],\n 'Confidence': 1}]\n</answer>", [(1, 2, 3, 4, 1)]),
        (
            "<answer>[{'Position': [1, 2, 3, 4], 'Confidence': 1}, {'Position': [1, 2]}]</answer>",
            [(1, 2, 3, 4, 1)],
        ),
        ("<answer>[{'Position': [1, 2, 3, 4], 'Confidence': 1}, {}]</answer>", []),
        ("<answer>No Objects</answer>", []),
        ("<answer>[]</answer>", []),
        ("<answer>['a']</answer>", []),
        ("[" * 100_000, []),
        ("", []),
    ],
)
def test_boxes_that_the_released_evaluation_reads(
    output: str, boxes: list[tuple[float, ...]]
) -> None:
    assert [(*box, c) for box, c in read_released_detections(output)] == boxes


NOTHING = Sample(
    id="n", messages=(), answer=[], tags={"answer": "boxes"}, info={"none": "No Objects"}
)


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("No Objects", 1.0),
        (" no objects ", 1.0),
        ("No Objects.", 0.0),
        ("[{'Position': [1, 2, 3, 4], 'Confidence': 0}]", 0.0),
        ("[]", 0.0),
        ("", 0.0),
    ],
)
def test_the_answer_that_there_is_nothing(answer: str, score: float) -> None:
    text = f"<think></think><answer>{answer}</answer>"
    assert find_grader("boxes.detected_iou")(text, NOTHING) == score
    assert find_grader("boxes.detected")(text, NOTHING) == {"iou": score, "confidence": score}
    assert find_grader("boxes.visual_rft_iou")(text, NOTHING) == 0.0  # as released


def test_a_picture_may_have_many_objects() -> None:
    """A solution of ViRFT_LVIS_few_shot has 3,200 characters."""
    boxes = [[k, 0, k + 5, 9] for k in range(100)]
    crowded = Sample(id="s", messages=(), answer=boxes, tags={"answer": "boxes"})
    text = gold_text(find_task("detection"), crowded)
    assert len(text) > 3_200
    assert find_grader("boxes.detected_iou")(text, crowded) == 1.0
    assert find_grader("format")(text, crowded) == 1.0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<answer>[{'Position': [1, 2, 3, 4], 'Confidence': 0}]</answer>", None),
        ("<answer>No Objects</answer>", None),
        ("<answer>(1,2),(3,4)</answer>", "no list of Position and Confidence"),
        ("(1,2),(3,4)", "no <answer> tag"),
    ],
)
def test_an_unreadable_list_is_explained(text: str, why: str | None) -> None:
    explain: Any = find_grader("boxes.detected_iou")
    found = explain.why_unreadable(text, NOTHING)
    assert (None if found is None else found.why) == why


def test_no_objects_is_no_answer_where_there_are_some() -> None:
    some = Sample(
        id="s",
        messages=(),
        answer=[[0, 0, 9, 9]],
        tags={"answer": "boxes"},
        info={"none": "No Objects"},
    )
    assert find_grader("boxes.detected_iou")("<answer>No Objects</answer>", some) == 0.0


def test_prepared_rows_are_the_raw_ones(root: Path, tmp_path: Path) -> None:
    more = ("--split", "test", "options.ask=all", 'options.categories=["bus","train","cat","dog"]')
    assert prepare("detection", root / "coco", tmp_path, *more) == {"test": {}}
    assert_same(
        load_samples("detection", "test", tmp_path), load(root, "test", "coco", ask="all", **ALL)
    )


def test_pixels_of_the_resized_picture(root: Path) -> None:
    options = {"boxes": "resized", "max_pixels": 100352, **ALL}
    sample = load(root, "test", "coco", **options)[0]
    assert sample.info["frame"] == (364, 252)
    assert "'Position': [0, 0, 182, 126]" in gold_text(find_task("detection"), sample)
    assert_gold_earns_all("detection", [sample])


def edit(change: dict[str, Any]) -> dict[str, Any]:
    tree = detection.annotation_file()
    tree["annotations"][0] |= change
    return tree


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (edit({"category_id": 99}), "unusable annotation: no category 99"),
        (edit({"image_id": 1}), "unusable annotation: no image 1"),
        (edit({"bbox": [0, 0, 0, 9]}), "unusable annotation: its bbox .* has no area"),
        (edit({"bbox": [0, 0, 9]}), "is not x, y, width, height"),
        (edit({"bbox": [900, 0, 9, 9]}), "is outside the picture"),
        ({"images": [], "annotations": []}, "no list 'categories'"),
    ],
)
def test_a_broken_annotation_is_named(tree: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_json(tmp_path / "instances_val2017.json", tree)
    with pytest.raises(DataError, match=message):
        load_samples("detection", "test", tmp_path, **ALL)


def test_categories_that_are_not_there_are_refused(root: Path) -> None:
    with pytest.raises(DataError, match="no category 'fire hydrant' among those"):
        load(root, "test", "coco")  # the eight of the few-shot test
    with pytest.raises(DataError, match="no test split; looked for"):
        load(root, "test", "virft")


def test_without_pycocotools_the_extra_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.tasks.detection.average_precision.find_spec", lambda name: None)
    with pytest.raises(PluginError, match=r"pip install 'vlrft\[detection\]'"):
        load_task(TaskConfig(name="detection", options={"data": str(root / "virft")}), "train")
