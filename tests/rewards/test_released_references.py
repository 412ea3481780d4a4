"""Answer -> score of the released graders of referring expressions, and of a box in JSON, with the defects that were seen."""

from __future__ import annotations

import json

import pytest

from vlrft.plugins.find import find_grader
from vlrft.schema import DataError, Sample

bbox_2d, vlm_r1 = find_grader("boxes.bbox_2d"), find_grader("boxes.vlm_r1")
vlm_r1_eval, qwen_vl_eval = find_grader("boxes.vlm_r1_eval"), find_grader("boxes.qwen_vl_eval")
vlm_r1_format = find_grader("format.vlm_r1")

# A picture of 1000 x 500 pixels, resized to 504 x 252 (VLM-R1's answers are in pixels of that); its object is the left half.
INFO = {"size": [1000, 500], "box": [0.0, 0.0, 500.0, 500.0]}
JSON = Sample(
    id="json",
    messages=(),
    answer=(0, 0, 500, 1000),
    tags={"answer": "bbox_2d"},
    info={**INFO, "frame": [504, 252]},
)
PLAIN = Sample(id="plain", messages=(), answer=(0, 0, 500, 1000), tags={"answer": "box"}, info=INFO)


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ('{"bbox_2d": [0, 0, 252, 252]}', 1.0),
        ('{"bbox_2d": [0, 0, 252, 252], "label": "a door"}', 1.0),
        ("[0, 0, 252, 252]", 1.0),
        ('[{"bbox_2d": [0, 0, 126, 252], "label": "half of it"}]', 0.5),
        ('```json\n[\n\t{"bbox_2d": [0, 0, 252, 252]}\n]\n```', 1.0),
        ('{"bbox": [0.0, 0.0, 252.0, 252.0]}', 1.0),
        ('[{"bbox_2d": [0, 0, 252, 252]}, {"bbox_2d": [0, 0, 252, 252]}]', 0.0),  # two
        ('{"bbox_2d": [0, 0, 252, 252], "box": [0, 0, 9, 9]}', 0.0),
        ('{"bbox_2d": [252, 0, 0, 252]}', 0.0),  # inverted
        ('{"bbox_2d": [0, 0, 252, 253]}', 0.0),  # out of the frame
        ('{"bbox_2d": [0, 0, NaN, 252]}', 0.0),
        ('{"bbox_2d": [0, 0, 1e999, 252]}', 0.0),
        ('{"bbox_2d": [0, 0, true, 252]}', 0.0),
        ('the box is {"bbox_2d": [0, 0, 252, 252]}', 0.0),  # prose
        ("(0,0),(252,252)", 0.0),
        ("[" * 2000, 0.0),
        ("", 0.0),
    ],
)
def test_a_box_in_json_is_the_whole_answer(answer: str, score: float) -> None:
    assert bbox_2d(f"<think></think><answer>{answer}</answer>", JSON) == pytest.approx(score)


def answered(*numbers: int) -> str:
    return f"<think></think><answer>{json.dumps({'bbox_2d': numbers})}</answer>"


def test_the_iou_of_vlm_r1_counts_pixels() -> None:
    """(0, 0, 252, 252) is (0, 0, 500, 500): the intersection is up to 499, and 500 wide with the last pixel."""
    assert vlm_r1(answered(0, 0, 252, 252), JSON) == 1.0
    # (0, 0, 126, 252) is 250 wide: 250 · 500 of 500 · 500
    assert vlm_r1(answered(0, 0, 126, 252), JSON) == 0.5
    # (0, 0, 189, 252) is 375 wide; the pictures' right half adds nothing to the intersection
    assert vlm_r1(answered(0, 0, 504, 252), JSON) == 0.5
    assert vlm_r1_eval(answered(0, 0, 126, 252), JSON) == 0.0  # exactly 0.5 is not above it
    assert vlm_r1_eval(answered(0, 0, 128, 252), JSON) == 1.0


@pytest.mark.parametrize(
    ("text", "reward", "grade"),
    [
        (answered(0, 0, 252, 252), 1.0, 1.0),
        ("<answer>[0, 0, 252, 252]</answer>", 1.0, 0.0),  # the evaluation wants braces
        ("<answer>{[0, 0, 252, 252]}</answer>", 1.0, 1.0),
        ("[0, 0, 252, 252]", 0.0, 0.0),  # no tag
        ("<answer>{[9, 9, 20, 20] [0, 0, 252, 252]}</answer>", 0.001905, 1.0),  # first, last
        ("<answer>{[0, 0, 252, 252]} {[9, 9, 20, 20]}</answer>", 1.0, 0.0),
        ("<answer>{[0.0, 0, 252, 252]}</answer>", 0.0, 0.0),  # whole numbers only
        ("<answer>{[0, 0, 5000, 5000]}</answer>", 0.0025, 0.0),  # out of range
        ("<answer>{[252, 252, 0, 0]}</answer>", 0.0, 0.0),
        (f"<answer>{{[0, 0, {'9' * 5000}, 252]}}</answer>", 0.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_answers_of_vlm_r1(text: str, reward: float, grade: float) -> None:
    assert vlm_r1(text, JSON) == pytest.approx(reward, abs=3e-4)
    assert vlm_r1_eval(text, JSON) == grade


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ("(0,0),(499,999)", 1.0),
        ("<ref>a door</ref><box>(0,0),(500,999)</box>", 1.0),
        ("<think>(0,0),(9,9)</think><answer>(0,0),(499,999)</answer>", 0.0),  # the first counts
        ("(0,0),(250,999)", 1.0),  # 250.25 of 500 pixels: an IoU of 0.5005
        ("(0,0),(249,999)", 0.0),
        ("(0,0), (499,999)", 0.0),  # the pattern has no space there
        ("( 0 , 0.0 ),( 499 , 999 )", 1.0),
        ("(0,0,0),(499,999)", 0.0),
        ("(0),(499)", 0.0),
        ("(499,999),(0,0)", 0.0),
        ("(0,0)\n,(499,999)", 0.0),
        ("(inf,0),(499,999)", 0.0),
        ("", 0.0),
    ],
)
def test_answers_of_qwen_vl(text: str, grade: float) -> None:
    assert qwen_vl_eval(text, PLAIN) == grade


def test_each_applies_to_its_own_form() -> None:
    assert bbox_2d("", PLAIN) is None
    assert vlm_r1("", PLAIN) is None
    assert vlm_r1_eval("", PLAIN) is None
    assert qwen_vl_eval("", JSON) is None


@pytest.mark.parametrize("key", ["box", "size", "frame"])
def test_a_sample_without_pixels_is_refused(key: str) -> None:
    info = {k: v for k, v in JSON.info.items() if k != key}
    broken = Sample(id="s", messages=(), answer=(0, 0, 9, 9), tags=JSON.tags, info=info)
    with pytest.raises(DataError, match="sample s"):
        vlm_r1(answered(0, 0, 9, 9), broken)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (answered(0, 0, 9, 9), 1.0),
        ('x <think>y</think>\n<answer>z {"b": [1,2, 3,4] } w</answer> v', 1.0),
        ("<think></think><answer>[1, 2, 3, 4]</answer>", 0.0),
        ("<think></think><answer>{[1.0, 2, 3, 4]}</answer>", 0.0),
        ("<think></think>{[1, 2, 3, 4]}<answer></answer>", 0.0),
        ("<answer>{[1, 2, 3, 4]}</answer>", 0.0),
        ("<think></think><answer>{[1, 2, 3, 4]}", 0.0),
        ("<think></think><answer>}[1, 2, 3, 4]{</answer>", 0.0),
        ("", 0.0),
    ],
)
def test_the_format_of_vlm_r1(text: str, score: float) -> None:
    assert vlm_r1_format(text, JSON) == score
