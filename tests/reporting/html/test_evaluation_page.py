"""The HTML page of an evaluation: pictures with boxes, tables, filters; texts of models cannot become markup."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vlrft.cli.main import main
from vlrft.evaluation.details.class_table import OTHER, UNREADABLE
from vlrft.reporting.html.cards import box_overlays
from vlrft.reporting.html.evaluation_page import (
    CARDS,
    MATRIX,
    choose_records,
    is_right,
    make_matrix,
    write_evaluation_page,
)
from vlrft.schema import Record

HOSTILE = "<script>alert('\"1')</script>"
CARD = re.compile(r'<div class="card((?: \w+)*)">')
DIGITS = ("score", "digits", "options.test=8", "options.canvas=[112]", "--predictions")
RESULTS = {"task": "toy", "split": "test", "n": 2, "strict": {"threshold": 1.0, "metrics": {}}}


def record(k: int, grade: float, **fields: Any) -> Record:
    return replace(
        Record(id=f"s{k}", output="<answer>x</answer>", grades={"strict": grade}, answer="x"),
        **fields,
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The page of eight answers to digits, of which two are to a box, and its folder."""
    folder = tmp_path_factory.mktemp("page")
    outputs = [
        *(f"<answer>{k}</answer>" for k in ("0", "1", "(A)")),
        "<answer>(0,0),(500,500)</answer>",
        *(HOSTILE, "<answer>2</answer>", "left"),
        '{"bbox_2d": [1, 2, 3, 4]}',
    ]
    rows = [{"id": f"digits/test/{k}", "output": text} for k, text in enumerate(outputs)]
    (folder / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [*DIGITS, str(folder / "p.jsonl")]
    command += ["--json", str(folder / "o.json"), "--html", str(folder / "page.html")]
    assert main(command) == 0
    return (folder / "page.html").read_text(), folder


def test_the_page_is_self_contained_and_runs_no_script(page: tuple[str, Path]) -> None:
    html, _ = page
    assert "<script" not in html
    assert "&lt;script&gt;alert" in html
    assert set(re.findall(r'(?:src|href)="(\w+:)', html)) == {"data:"}
    assert not re.search(r"https?://", html)


def test_every_answer_is_a_card_with_its_picture_and_boxes(page: tuple[str, Path]) -> None:
    html, _ = page
    assert len(CARD.findall(html)) == html.count("data:image/png;base64,") == 8
    assert html.count('class="box true"') == 2
    assert html.count('class="box predicted"') == 1
    assert "unreadable: box without an &lt;answer&gt; tag" in html


def test_answers_are_filtered_without_a_script(page: tuple[str, Path]) -> None:
    html, _ = page
    labels = re.findall(r'<label for="show-(\w+)">([\w ]+)</label>', html)
    assert [name for name, _ in labels] == ["all", "right", "wrong", "unreadable"]
    counts = {name: int(text.split()[1]) for name, text in labels}
    assert counts["all"] == 8 == counts["right"] + counts["wrong"]
    assert counts["unreadable"] == 3
    assert "main:has(#show-wrong:checked) .card:not(.wrong) { display:none; }" in html
    states = [set(names.split()) for names in CARD.findall(html)]
    assert sum("wrong" in names for names in states) == counts["wrong"]
    assert sum("unreadable" in names for names in states) == 3


def test_the_page_of_stored_results_is_the_same(
    page: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    html, folder = page
    assert main(["report", str(folder / "o.json")]) == 0
    assert f"report: {folder / 'o.html'}" in capsys.readouterr().out
    assert (folder / "o.html").read_text() == html
    assert main(["report", str(folder / "o.json")]) == 2
    assert "exists; use --overwrite" in capsys.readouterr().err
    (folder / "other.json").write_text(json.dumps({"records": str(folder / "o.records.jsonl")}))
    assert main(["report", str(folder / "other.json")]) == 1
    assert "other.json: has no 'task'" in capsys.readouterr().err
    assert main(["report", str(folder / "nothing.json")]) == 1
    assert "no such file; give one that vlrft eval or score wrote" in capsys.readouterr().err


def test_without_samples_the_page_has_no_pictures_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.jsonl").write_text('{"id": 1, "output": "<answer>3</answer>", "answer": 4}\n')
    html = tmp_path / "p.html"
    command = ["score", "counting", "--predictions", str(tmp_path / "p.jsonl")]
    assert main([*command, "--html", str(html), "--json", str(tmp_path / "o.json")]) == 0
    assert (
        "is without questions and pictures: the samples were not loaded" in capsys.readouterr().err
    )
    assert "<img" not in html.read_text()
    assert main(["report", str(tmp_path / "o.json")]) == 0


def test_names_of_classes_and_tags_are_escaped(tmp_path: Path) -> None:
    shown = record(0, 0.0, tags={"kind": HOSTILE}, id=HOSTILE, unreadable=HOSTILE)
    classes = {HOSTILE: {"n": 1, "correct": 0, "score": 0.0, "ci": [0.0, 0.8]}}
    confusion = {HOSTILE: {OTHER: 1}}
    results = {
        **RESULTS,
        "task": HOSTILE,
        "model": HOSTILE,
        "unreadable": {HOSTILE: 1},
        "classes": {"macro": 0.0, "classes": classes, "confusion": confusion},
    }
    write_evaluation_page(tmp_path / "p.html", results, [shown], [])
    html = (tmp_path / "p.html").read_text()
    assert html.count("&lt;script&gt;") >= 8
    assert "<script" not in html


def test_half_of_the_answers_are_wrong_where_there_are_enough() -> None:
    records = [record(k, float(k % 10 > 0)) for k in range(10 * CARDS)]
    chosen = choose_records(records, RESULTS)
    assert len(chosen) == CARDS
    assert sum(r.grades["strict"] == 0.0 for r in chosen) == CARDS // 2
    assert chosen == sorted(chosen, key=lambda r: int(r.id[1:]))
    few = [record(k, float(k > 0)) for k in range(5)]
    assert choose_records(few, RESULTS) == few


def test_a_box_is_right_from_half_an_overlap_on() -> None:
    assert is_right(record(0, 0.5, answer=(0, 0, 9, 9)), RESULTS)
    assert not is_right(record(0, 0.5), RESULTS)


def test_a_large_matrix_keeps_the_classes_with_the_most_wrong_answers() -> None:
    confusion = {f"c{k:02}": {f"c{k:02}": 9, "c00": k} for k in range(1, MATRIX + 3)}
    matrix = make_matrix({"c00": {"c00": 5, UNREADABLE: 50}, **confusion})
    assert matrix is not None
    assert matrix.left_out == 3
    assert matrix.columns[-2:] == (UNREADABLE, "(other classes)")
    assert [name for name, _ in matrix.rows][:2] == ["c00", "c04"]
    assert matrix.rows[0][1][-2:] == ((50, 91), (0, 0))


def test_boxes_in_pixels_of_the_resized_picture_are_drawn_in_their_frame() -> None:
    (true, predicted) = box_overlays(
        (0, 0, 500, 500), "<answer>[50, 100, 100, 200]</answer>", (200.0, 400.0)
    )
    assert (true.left, true.width) == (0, 50)
    assert (predicted.left, predicted.top, predicted.width, predicted.height) == (25, 25, 25, 25)
