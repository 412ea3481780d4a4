"""Answers that the strict grader cannot read are counted, with reasons, and never scored by these reasons."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from vlrft.cli.main import main
from vlrft.evaluation.unreadable import unreadable_lines
from vlrft.plugins.find import find_reward, find_task
from vlrft.schema import Record, Sample
from vlrft.scoring.graders import Graders

BOX = (100, 100, 500, 500)
GOLD = {
    "count": 4,
    "choice": "B",
    "math_answer": "4",
    "boxes": BOX,
    "boxes.bbox_2d": BOX,
    "boxes.matched": [BOX],
    "point": BOX,
    "temporal_iou": (1.0, 4.5),
}
OPTIONS = {"options": "left\nright"}


def reason(task: str, output: str, gold: object, **tags: str) -> str:
    graders = Graders.of(find_task(task))
    return graders.record(Sample(id="s", messages=(), answer=gold, tags=tags), output).unreadable


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("", "empty output"),
        ("four", "no <answer> tag"),
        ("<think><answer>4</answer></think>", "<answer> tag only in the thinking"),
        ("<answer>4", "<answer> tag not closed"),
        ("4</answer>", "<answer> tag not opened"),
        ("<answer>3</answer><answer>4</answer>", "several <answer> tags"),
        ("<answer> </answer>", "empty <answer> tag"),
        (f"<answer>{'4' * 2001}</answer>", "an answer of more than 2,000 characters"),
        ("<answer>four</answer>", "no whole number in ASCII digits"),
        ("<answer>5</answer>", ""),
        ("<answer>4</answer>", ""),
    ],
)
def test_each_way_to_be_unreadable_has_its_reason(output: str, why: str) -> None:
    assert reason("counting", output, 4) == why


def test_an_answer_that_is_none_of_the_options_is_unreadable() -> None:
    assert reason("sat", "<answer>up</answer>", "B", **OPTIONS) == "none of the options"
    for wrong in ("A", "(A)", "left", "(A) left", "a. left"):
        assert reason("sat", f"<answer>{wrong}</answer>", "B", **OPTIONS) == ""


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (  # Qwen2.5-VL, docs of its cookbook for grounding
            '```json\n[\n\t{"bbox_2d": [120, 40, 300, 210], "label": "cat"}\n]\n```',
            "box without an <answer> tag",
        ),
        ("The cat is at (1,2),(3,4).", "box without an <answer> tag"),
        ("<answer>at (1,2),(3,4)</answer>", "box with other text in its tag"),
        ("<answer>[[1, 2, 3, 4], [5, 6, 7, 8]]</answer>", "several boxes"),
        (
            "<answer>[0.1, 0.2, 0.35, 0.9]</answer>",
            "box from 0 to 1, in shares of the picture",
        ),
        (
            "<answer>[700, 40, 1300, 210]</answer>",
            "box outside of 0 to 1000: try options.boxes=resized",
        ),
        ("<answer>(300,40),(100,210)</answer>", "box inverted or without area"),
        ("<answer>a cat</answer>", "no box"),
        ("<answer>(600,600),(900,900)</answer>", ""),
        ('<answer>{"bbox_2d": [600, 600, 900, 900], "label": "cat"}</answer>', ""),
    ],
)
def test_boxes_that_cannot_be_read_have_a_reason_and_earn_nothing(output: str, why: str) -> None:
    assert reason("lisa", output, BOX) == why
    assert find_reward("boxes")(output, Sample(id="s", messages=(), answer=BOX)) == 0.0


def test_an_option_is_suggested_only_where_the_task_has_it_and_it_would_change_anything() -> None:
    pixels = "<answer>[700, 40, 1300, 210]</answer>"
    assert reason("digits", pixels, BOX, answer="box") == "box outside of 0 to 1000"
    graders = Graders.of(find_task("lisa"))
    framed = Sample(id="s", messages=(), answer=BOX, info={"frame": (504, 336)})
    assert graders.record(framed, pixels).unreadable == "box that leaves the resized picture"


@pytest.mark.parametrize("name", GOLD)
def test_a_reason_is_only_given_where_the_reward_is_zero(name: str) -> None:
    reward, sample = find_reward(name), Sample(id="s", messages=(), answer=GOLD[name])
    texts = (
        "",
        "4",
        "B",
        "(2,3)",
        "(2000,3)",
        "(1,2),(3,4);x",
        "(100,100),(500,500)",
        "[100, 100, 500, 500]",
        "\\boxed{4}",
        "\ud800",
    )
    for text in texts:
        for output in (text, f"<answer>{text}</answer>", f"<think>{text}</think><answer>{text}"):
            if vars(reward)["why_unreadable"](output, sample) is not None:
                assert reward(output, sample) == 0.0, output


def test_counts_are_printed_with_reasons_and_cut_answers() -> None:
    record = Record(id="s", output="", unreadable="no <answer> tag", truncated=True)
    right = replace(record, unreadable="", truncated=False)
    assert unreadable_lines([right]) == []
    assert unreadable_lines([record, record, right, replace(right, truncated=True)]) == [
        "unreadable 2 of 4; cut (rollout.max_tokens) 3 of 4, 2 of them unreadable",
        "  2 of 4: no <answer> tag",
    ]
    many = [replace(record, unreadable=f"reason {k}") for k in range(7)]
    assert unreadable_lines(many)[-1] == "  2 of 7: other reasons"


def test_the_command_says_why_nothing_was_right_and_the_result_has_the_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"output": "<answer>[1, 2, 3, 4000]</answer>", "answer": list(BOX)}
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"id": k, **row}) + "\n" for k in range(4)))
    out = tmp_path / "out.json"
    assert main(["score", "lisa", "--predictions", str(rows), "--json", str(out)]) == 0
    why = "box outside of 0 to 1000: try options.boxes=resized"
    assert f"unreadable 4 of 4\n  4 of 4: {why}\n" in capsys.readouterr().out
    result = json.loads(out.read_text())
    assert (result["n"], result["unreadable"], result["cut"]) == (4, {why: 4}, 0)
    assert (result["strict"]["metric"], result["strict"]["n"]) == ("mIoU", 4)
    records = tmp_path / "out.records.jsonl"
    record = json.loads(records.read_text().splitlines()[0])
    assert record["unreadable"] == why
    records.write_text(records.read_text().replace('"truncated": false', '"truncated": true'))
    assert main(["score", "lisa", "--predictions", str(records)]) == 0  # graded again
    assert (
        "unreadable 4 of 4; cut (rollout.max_tokens) 4 of 4, 4 of them" in capsys.readouterr().out
    )
