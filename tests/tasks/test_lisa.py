"""LISA: ReasonSeg's raw form, gold boxes, prompts word for word, and metrics by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from tests.fixtures.makers._pictures import encode, photograph, turn_sideways
from tests.fixtures.makers._tables import write_bytes, write_json
from tests.fixtures.makers.lisa import BESIDE, SENTENCE, SQUARE, annotation, make, shape
from tests.fixtures.qwen_tokenizer import (
    ASSISTANT,
    RELEASED_PIXELS,
    SYSTEM,
    USER,
    image_tokens,
    needs_qwen,
    render,
)
from tests.tasks.loaded import (
    assert_gold_earns_all,
    assert_same,
    dataset_folder,
    load_samples,
    prepare,
)
from vlrft.evaluation.evaluate import compute_metrics
from vlrft.plugins.find import find_reward, find_task
from vlrft.schema import DataError, Record, Sample
from vlrft.scoring.graders import Graders
from vlrft.vision.boxes import rescale, round_box

WHERE = ["/7_1/0", "/7_2/0", "/7_3/0", "/7_4/0"]

data = dataset_folder(make, "raw")


@pytest.fixture(scope="module")
def ready(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("lisa_ready")
    prepare("lisa", data, out)
    return out


def validate(options: dict[str, object]) -> object:
    kind = find_task("lisa").options
    return TypeAdapter(kind).validate_python(options)


def by_id(loaded: Sequence[Sample]) -> dict[str, Sample]:
    return {sample.id: sample for sample in loaded}


def test_pictures_without_a_target_or_an_instruction_are_listed(data: Path, tmp_path: Path) -> None:
    assert prepare("lisa", data, tmp_path / "out") == {
        "train": {"train/100_4": "incomplete row", "train/100_5": "incomplete row"},
        "val": {},
        "test": {},
    }
    lines = (tmp_path / "out/train.defects.jsonl").read_text(encoding="utf-8").splitlines()
    details = {row["id"]: row["detail"] for row in map(json.loads, lines)}
    assert "no target: its polygons are empty, flags or ignored" in details["train/100_4"]
    assert "no instruction" in details["train/100_5"]
    with pytest.raises(DataError, match="2 of 7 rows of the train split cannot be used"):
        load_samples("lisa", "train", data)


def test_a_prepared_folder_holds_the_same_samples(data: Path, ready: Path) -> None:
    for split in ("val", "test"):
        assert_same(load_samples("lisa", split, data), load_samples("lisa", split, ready))


def test_training_takes_each_instruction_and_a_test_the_first_or_all(
    data: Path, ready: Path
) -> None:
    train = load_samples("lisa", "train", ready)
    names = [f"train/100_{k}" for k in ("1/0", "1/1", "1/2", "2/0", "3/0")]
    assert [s.id for s in train] == names
    assert [s.id for s in load_samples("lisa", "test", data)] == [f"test{w}" for w in WHERE]
    every = load_samples("lisa", "test", data, instructions="all")
    assert [s.id for s in every] == ["test/7_1/0", "test/7_1/1", *(f"test{w}" for w in WHERE[1:])]
    assert every[0].answer == every[1].answer


def test_the_gold_box_is_around_the_whole_target(data: Path) -> None:
    """Edges are part of a polygon: 100 … 300 are 201 pixels."""
    loaded = by_id(load_samples("lisa", "test", data))
    assert loaded["test/7_1/0"].answer == (156, 117, 470, 588)  # 156.25, 117.1, 470.3, 587.8
    assert loaded["test/7_2/0"].answer == (625, 117, 783, 354)
    assert loaded["test/7_4/0"].answer == (188, 117, 783, 354)  # both parts
    pixels = [round_box(rescale(s.answer, (1000, 1000), (640, 427))) for s in loaded.values()]
    assert pixels == [(100, 50, 301, 251), (400, 50, 501, 151), (100, 50, 301, 251), (120, 50, 501, 151)]  # fmt: skip


def test_the_released_gold_box_is_around_the_first_shape_whatever_it_is(
    data: Path, ready: Path
) -> None:
    test = by_id(load_samples("lisa", "test", data, box="first_shape"))
    assert test["test/7_1/0"].answer == (156, 117, 468, 585)  # 468.75 and 585.48, truncated
    assert test["test/7_4/0"].answer == (187, 163, 250, 257)  # one of two parts
    train = by_id(load_samples("lisa", "train", ready, box="first_shape"))
    assert train["train/100_3/0"].answer == (187, 163, 250, 257)  # a part labelled `ignore`
    assert by_id(load_samples("lisa", "train", ready))["train/100_3/0"].answer == (
        156,
        117,
        470,
        588,
    )


def test_flags_and_ignored_parts_are_no_target(ready: Path) -> None:
    flagged = by_id(load_samples("lisa", "train", ready))["train/100_3/0"]
    exact = "<answer>(156,117),(470,588)</answer>"
    record = Graders.of(find_task("lisa")).record(flagged, exact)
    metrics = compute_metrics(find_task("lisa"), [record]).graded["strict"]
    assert metrics["gIoU"].score == metrics["cIoU"].score == 1.0


def test_the_size_of_a_turned_picture_is_that_of_the_upright_one(tmp_path: Path) -> None:
    upright = photograph().resize((640, 427))
    for name, content in (("lying", turn_sideways(upright)), ("upright", encode(upright, "JPEG"))):
        write_bytes(tmp_path / f"test/{name}.jpg", content)
        write_json(tmp_path / f"test/{name}.json", annotation(shape("target", BESIDE)))
    turned_sample, upright_sample = load_samples("lisa", "test", tmp_path)
    assert turned_sample.images[0].size == upright_sample.images[0].size == (640, 427)
    assert turned_sample.info["size"] == [640, 427]
    assert turned_sample.answer == upright_sample.answer == (625, 117, 783, 354)


@pytest.mark.parametrize(
    ("cells", "detail"),
    [
        (annotation(shape("target", SQUARE), shape("flag", [])), ""),
        (annotation(shape("flag", []), shape("target", SQUARE)), "first polygon has no points"),
        (annotation(shape("target", SQUARE[:2])), "no target"),
        (annotation(shape("target", [*SQUARE[:3], [10**9, 5]])), "no place of a picture"),
        (annotation(shape("target", [*SQUARE[:3], [10**400, 5]])), "OverflowError"),
        ({"text": ["the roof"], "shapes": [{"label": "target"}]}, "KeyError: 'points'"),
        ({"text": ["the roof"]}, "KeyError: 'shapes'"),
        ({"text": None, "shapes": []}, "TypeError"),
        ({"text": [], "shapes": []}, "no instruction"),
        ({"text": ["the roof"], "shapes": []}, "no target"),
        ([1], "no ReasonSeg annotation"),
    ],
)
def test_an_unusable_annotation_is_reported_with_a_reason(
    tmp_path: Path, cells: object, detail: str
) -> None:
    write_bytes(tmp_path / "raw/test/a.png", encode(photograph().resize((640, 427))))
    write_json(tmp_path / "raw/test/a.json", cells)
    if not detail:
        assert len(load_samples("lisa", "test", tmp_path / "raw")) == 1
        return
    with pytest.raises(DataError, match=detail):
        load_samples("lisa", "test", tmp_path / "raw")


def test_an_unusable_picture_is_reported_with_a_reason(data: Path, tmp_path: Path) -> None:
    whole = encode(photograph().resize((64, 42)), "JPEG")
    cells = annotation(shape("target", [[1, 1], [9, 1], [9, 9]]))
    contents = {"cut": whole[: len(whole) // 2], "good": whole, "none": None, "text": b"no"}
    for name, content in contents.items():
        write_json(tmp_path / f"raw/test/{name}.json", cells)
        if content is not None:
            write_bytes(tmp_path / f"raw/test/{name}.jpg", content)
    assert prepare("lisa", tmp_path / "raw", tmp_path / "out") == {
        "test": {
            "test/cut/0": "image missing or unreadable",
            "test/none": "incomplete row",
            "test/text": "incomplete row",
        }
    }
    with pytest.raises(DataError, match="no train split; looked for"):
        load_samples("lisa", "train", tmp_path / "raw")
    with pytest.raises(DataError, match="is not on the hub"):
        find_task("lisa").load("train", validate({}))


@needs_qwen
def test_the_released_prompts_word_for_word(data: Path, ready: Path) -> None:
    tail = (
        " Output the thinking process in <think> </think> and your grouding box. Following "
        '"<think> thinking process </think>\n<answer>(x1,y1),(x2,y2)</answer>)" format.'
    )
    asked = f"Output the bounding box in the image corresponding to the instruction: {SENTENCE}"
    train = load_samples("lisa", "train", ready, prompt="released")[0]
    assert render(train) == f"{SYSTEM}{USER}{asked}{tail}{ASSISTANT}"
    test = load_samples("lisa", "test", data, prompt="released")[0]
    assert render(test) == (
        "<|im_start|>system\nA conversation between User and Assistant. The user asks a question, and "
        "the Assistant solves it. The assistant first thinks about the reasoning process in the mind "
        "and then provides the user with the answer. The reasoning process and answer are enclosed "
        "within <think> </think> and <answer> </answer> tags, respectively, i.e., <think> reasoning "
        f"process here </think><answer> answer here </answer><|im_end|>\n{USER}{asked}.{tail}{ASSISTANT}"
    )


@needs_qwen
@pytest.mark.parametrize(
    ("options", "unit"),
    [
        ({}, "in thousandths of the picture's width and height"),
        ({"boxes": "resized"}, "in pixels of the picture, which is 644 pixels wide and 420 high"),
    ],
)
def test_the_clean_prompt_says_the_unit(
    data: Path, ready: Path, options: dict[str, str], unit: str
) -> None:
    text = (
        f"{SYSTEM}{USER}Find what this asks for: {SENTENCE}\nThink first, between <think> and "
        f"</think>. Then give its bounding box as (x1,y1),(x2,y2), {unit}, between <answer> and "
        f"</answer>.{ASSISTANT}"
    )
    assert render(load_samples("lisa", "train", ready, **options)[0]) == text
    assert render(load_samples("lisa", "test", data, **options)[0]) == text


@needs_qwen
def test_the_frame_is_the_size_of_the_resized_picture(data: Path) -> None:
    """640 x 427: 23 x 15 tokens of 28 x 28 pixels; within 100352 pixels, 13 x 9."""
    plain = load_samples("lisa", "test", data, boxes="resized")[0]
    assert (plain.info["frame"], image_tokens(plain, RELEASED_PIXELS)) == ((644, 420), 23 * 15)
    small = load_samples("lisa", "test", data, boxes="resized", max_pixels=100352)[0]
    assert (small.info["frame"], image_tokens(small, 100352)) == ((13 * 28, 9 * 28), 13 * 9)


@pytest.mark.parametrize("box", ["target", "first_shape"])
@pytest.mark.parametrize("boxes", ["thousandths", "resized"])
@pytest.mark.parametrize("prompt", ["clean", "released"])
def test_gold_answers_earn_full_marks(ready: Path, box: str, boxes: str, prompt: str) -> None:
    for split, count in (("train", 5), ("val", 4), ("test", 4)):
        loaded = load_samples("lisa", split, ready, box=box, boxes=boxes, prompt=prompt)
        assert len(loaded) == count
        assert_gold_earns_all("lisa", loaded)


def test_an_answer_in_pixels_of_the_frame_gets_the_same_overlap(data: Path) -> None:
    """In the frame of 644 x 420 pixels the gold box is (100, 49, 303, 247)."""
    there = load_samples("lisa", "test", data)[0]
    here = load_samples("lisa", "test", data, boxes="resized")[0]
    task = find_task("lisa")
    assert task.gold(here) == "<think></think><answer>(100,49),(303,247)</answer>"
    half = "<answer>(156,117),(313,588)</answer>", "<answer>(100,49),(201.5,247)</answer>"
    reward = find_reward("boxes")
    assert reward(half[0], there) == reward(half[1], here) == 0.5
    assert reward(half[0], here) != 0.5
    graders = Graders.of(task)
    metrics = [
        compute_metrics(task, [graders.record(s, text)]).graded["strict"]["gIoU"].score
        for s, text in zip((there, here), half, strict=True)
    ]
    # 156 … 313 thousandths are the pixels 100 … 199; 100 … 201.5 of 644 begin at 99.4, a pixel earlier
    assert metrics == [100 / 201, 100 / 202]
    outside = "<answer>(100,49),(645,247)</answer>"  # past the frame, within a thousand
    assert reward(outside, here) == 0.0


def records(data: Path, answers: Sequence[str]) -> list[Record]:
    graders = Graders.of(find_task("lisa"))
    loaded = load_samples("lisa", "test", data)
    return [graders.record(s, text) for s, text in zip(loaded, answers, strict=True)]


def test_strict_metrics_by_hand(data: Path) -> None:
    answers = [
        "<answer>(156,117),(470,588)</answer>",  # the gold box
        "<think>(1,2),(3,4)</think><answer>(625,117),(704,354)</answer>",  # its left half
        "no box",
        "<answer>(0,0),(1000,1000)</answer>",
    ]
    metrics = compute_metrics(find_task("lisa"), records(data, answers)).graded["strict"]
    assert list(metrics) == ["mIoU", "Acc@0.5", "Acc@0.7", "gIoU", "cIoU"]
    share = (783 - 188) * (354 - 117) / 1_000_000  # the gold box of the whole picture
    assert metrics["mIoU"].values == pytest.approx((1.0, 0.5, 0.0, share))
    assert metrics["mIoU"].score == pytest.approx((1.5 + share) / 4)
    assert (metrics["mIoU"].correct, metrics["mIoU"].n) == (2, 4)
    assert metrics["Acc@0.5"].values == (1.0, 1.0, 0.0, 0.0)
    assert metrics["Acc@0.7"].values == (1.0, 0.0, 0.0, 0.0)
    square, beside, within, whole = 201 * 201, 101 * 101, 41 * 41, 640 * 427
    half = 51 * 101  # 625 … 704 thousandths are 400 … 450.56 pixels
    inside = [square, half, 0, within + beside]
    union = [square, beside, square - within, whole]  # without what is ignored
    assert metrics["gIoU"].values == tuple(i / u for i, u in zip(inside, union, strict=True))
    assert metrics["cIoU"].score == sum(inside) / sum(union)


def test_several_answers_to_a_sample_are_one_item(data: Path) -> None:
    first = records(
        data,
        [
            "<answer>(156,117),(470,588)</answer>",
            "<answer>(625,117),(783,354)</answer>",
            "",
            "",
        ],
    )
    second = records(data, ["", "<answer>(625,117),(783,354)</answer>", "", ""])
    metrics = compute_metrics(find_task("lisa"), [*first, *second]).graded["strict"]
    for name in metrics:
        assert metrics[name].values == (0.5, 1.0, 0.0, 0.0), name
        assert (metrics[name].correct, metrics[name].n) == (3, 8), name
    square, beside, within = 201 * 201, 101 * 101, 41 * 41
    union = 2 * (square + beside + (square - within) + within + beside)
    assert metrics["cIoU"].score == (square + 2 * beside) / union


def test_overlaps_below_the_threshold_add_up_to_no_correct_answer(data: Path) -> None:
    low = records(data, ["<answer>(0,0),(1000,1000)</answer>"] * 4)
    metrics = compute_metrics(find_task("lisa"), low * 4).graded["strict"]
    assert {name: (value.correct, value.n) for name, value in metrics.items()} == dict.fromkeys(
        metrics, (0, 16)
    )


def test_the_official_grader_reads_the_first_box_against_the_first_shape(data: Path) -> None:
    answers = [
        "<answer>(156,117),(470,588)</answer>",
        "<think>(0,0),(10,10)</think><answer>(625,117),(783,354)</answer>",  # of the thinking
        "(156,117),(470,588)",  # no tag
        "<answer>(187,163),(250,257)</answer>",  # one of two parts
    ]
    graded = records(data, answers)
    official = compute_metrics(find_task("lisa"), graded).graded["official"]
    assert list(official) == ["mIoU", "Acc@0.5", "Acc@0.7"]
    right, bottom = 300 / 640, 250 / 427
    left, top = 100 / 640, 50 / 427
    gold = (right - left) * (bottom - top)
    square = gold / (0.314 * 0.471 + 1e-6)  # the gold box lies within the answer
    part = [120 / 640, 70 / 427, 160 / 640, 110 / 427]
    shared = (0.25 - part[0]) * (0.257 - part[1])
    area = (part[2] - part[0]) * (part[3] - part[1])
    small = shared / (0.063 * 0.094 + area - shared + 1e-6)
    assert official["mIoU"].values == pytest.approx((square, 0.0, square, small))
    assert 0.95 < small < 0.99 < square + 0.01
    strict = compute_metrics(find_task("lisa"), graded).graded["strict"]
    part_of_both = 62 * 94 / (63 * 94 + 595 * 237 - 62 * 94)
    assert strict["mIoU"].values == pytest.approx((1.0, 1.0, 0.0, part_of_both))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"box": "last"}, "'target' or 'first_shape'"),
        ({"boxes": "pixels"}, "'thousandths' or 'resized'"),
        ({"instructions": "second"}, "'first' or 'all'"),
        ({"prompt": "base"}, "'clean' or 'released'"),
        ({"grader": "strict"}, "grader"),
        ({"max_pixels": "many"}, "max_pixels"),
        ({"min_pixels": 0}, "min_pixels"),
        ({"min_pixels": 1000, "max_pixels": 999}, "max_pixels"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        validate(options)


def test_a_picture_too_long_for_the_processor_is_an_error(tmp_path: Path) -> None:
    write_bytes(tmp_path / "test/long.png", encode(photograph().resize((2010, 10))))
    cells = annotation(shape("target", [[100, 1], [900, 1], [900, 9], [100, 9]]))
    write_json(tmp_path / "test/long.json", cells)
    with pytest.raises(DataError, match=r"test/long .*too long for its width \(2010 x 10 pixels\)"):
        load_samples("lisa", "test", tmp_path)
