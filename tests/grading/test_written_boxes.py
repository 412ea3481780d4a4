"""Boxes and points as released models write them, and texts that are neither."""

from __future__ import annotations

import pytest

from vlrft.grading import MAX_LIST, read_box, read_boxes, read_json_boxes, read_point

# Qwen2.5-VL's and Qwen3-VL's cookbooks (spatial_understanding.ipynb, 2d_grounding.ipynb), Qwen2-VL's model card
COOKBOOK = """```json
[
\t{"bbox_2d": [341, 258, 397, 360], "label": "top-left cupcake", "cream": "pink"},
\t{"bbox_2d": [390, 78, 450, 181], "label": "another"}
]
```"""
MARKED = (
    "<|object_ref_start|>two dogs<|object_ref_end|><|box_start|>(221,423),(569,886)<|box_end|>"
    "<|box_start|>(451,381),(733,793)<|box_end|>"
)


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("(1,2),(3,4)", (1, 2, 3, 4)),
        (" ( 1 , 2 ) , ( 3 , 4 ) ", (1, 2, 3, 4)),
        ("(1.5,2),(3,4.25)", (1.5, 2, 3, 4.25)),
        ("(-1,2),(3,4)", (-1, 2, 3, 4)),
        ("[1,2,3,4]", (1, 2, 3, 4)),
        ("(1,2),(3,4),(5,6),(7,8)", None),
        ("(1,2),(3,4) or so", None),
        ("(1,2)", None),
        ("(١,٢),(٣,٤)", None),
        ("(nan,2),(3,inf)", None),
        ("(1e3,2),(3,4)", None),
        ("(" + "9" * 5000 + ",2),(3,4)", None),
        ("(1,2),(3,4)" * 10_000, None),
        ("(" + " " * 100_000, None),
    ],
)
def test_a_single_box(text: str, box: tuple[float, ...] | None) -> None:
    assert read_box(text) == box


@pytest.mark.parametrize(
    ("text", "boxes"),
    [
        (COOKBOOK, ((341, 258, 397, 360), (390, 78, 450, 181))),
        (MARKED, ((221, 423, 569, 886), (451, 381, 733, 793))),
        ("<|box_start|>(1,2),(3,4)<|box_end|>", ((1, 2, 3, 4),)),
        (
            "<|object_ref_start|>a cat<|object_ref_end|><|box_start|>(1,2),(3,4)<|box_end|>\n",
            ((1, 2, 3, 4),),
        ),
        ('{"bbox_2d": [1, 2.5, 3, 4], "label": "cat"}', ((1, 2.5, 3, 4),)),
        ('{"bbox": [1, 2, 3, 4]}\n{"bbox": [5, 6, 7, 8]}', ((1, 2, 3, 4), (5, 6, 7, 8))),
        ("[[1, 2, 3, 4], [5, 6, 7, 8]]", ((1, 2, 3, 4), (5, 6, 7, 8))),
        ("[1, 2, 3, 4]; [5, 6, 7, 8]", ((1, 2, 3, 4), (5, 6, 7, 8))),
        ("(1,2),(3,4);\n(5,6),(7,8)\n", ((1, 2, 3, 4), (5, 6, 7, 8))),
    ],
)
def test_every_released_form_is_read(text: str, boxes: tuple[tuple[float, ...], ...]) -> None:
    assert read_boxes(text) == boxes
    assert read_box(text) == (boxes[0] if len(boxes) == 1 else None)


@pytest.mark.parametrize(
    "text",
    [
        "the box is [1, 2, 3, 4]",
        "[1, 2, 3, 4] or so",
        "[1, 2, 3]",
        "[1, 2, 3, 4, 5]",
        "[1, 2, 3, true]",
        "[1, 2, 3, NaN]",
        '["1", "2", "3", "4"]',
        "[[[1, 2, 3, 4]]]",
        "[[1, 2, 3, 4], [5, 6, 7]]",
        '[{"bbox_2d": [1, 2, 3, 4]}, {"label": "cat"}]',
        '{"bbox_2d": [1, 2, 3, 4], "box": [5, 6, 7, 8]}',
        '{"label": "cat"}',
        "[]",
        "{}",
        "```json\n[1, 2, 3, 4]",
        "(1,2),(3,4) [5,6,7,8]",
        "(1,2),(3,4)(5,6),(7,8)",
        "<|box_start|>(1,2),(3,4)",
        "(1,2),(3,4)<|box_end|>",
        "<|box_start|>(1,2)<|box_end|>",
        "<|box_start|>(1,2),(3,4)<|box_end|> a cat",
        "<|object_ref_start|>a cat<|object_ref_end|>",
        "<|object_ref_start|><|box_start|>(1,2),(3,4)<|box_end|>",
        "",
        "[" * MAX_LIST,
        "<|box_start|>" + " " * MAX_LIST,
        f"[1, 2, 3, {'9' * 5000}]",
    ],
)
def test_any_other_text_is_no_box(text: str) -> None:
    assert read_boxes(text) is None
    assert read_box(text) is None


def test_json_alone_is_read_where_json_is_asked_for() -> None:
    assert read_json_boxes(' {"box": [1, 2, 3, 4]} ') == ((1, 2, 3, 4),)
    assert read_json_boxes("(1,2),(3,4)") is None
    assert read_json_boxes("<|box_start|>(1,2),(3,4)<|box_end|>") is None


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("(1,2)", (1, 2)),
        (" ( 1.5 , -2 ) ", (1.5, -2)),
        ("[1, 2]", (1, 2)),
        ("[[1, 2]]", (1, 2)),
        ('```json\n[{"point_2d": [394, 105], "label": "the strawberry"}]\n```', (394, 105)),
        ("<|box_start|>(12,34)<|box_end|>", (12, 34)),
        ("<|object_ref_start|>the door<|object_ref_end|><|box_start|>(12,34)<|box_end|>", (12, 34)),
        ("[[1, 2], [3, 4]]", None),
        ("[1, 2, 3, 4]", None),
        ("(1,2),(3,4)", None),
        ('{"bbox_2d": [1, 2]}', None),
        ("at (1,2)", None),
        ("", None),
    ],
)
def test_a_single_point(text: str, point: tuple[float, float] | None) -> None:
    assert read_point(text) == point
