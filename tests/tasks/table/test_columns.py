"""Columns are taken by their usual names where only one fits; otherwise one line says what was found and what to say."""

from __future__ import annotations

import base64
import csv
import json
import unicodedata
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.table.tables import load, rows, text_of, write_pictures, write_rows, write_table
from vlrft.schema import DataError

TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "<image>How many?"},
    {"role": "assistant", "content": "3"},
]
PARTS = [
    {
        "role": "user",
        "content": [{"type": "image", "image": "0.png"}, {"type": "text", "text": "How many?"}],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "3"}]},
]
SHAREGPT = [{"from": "human", "value": "<image>\nHow many?"}, {"from": "gpt", "value": "3"}]
FOUND: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "question, answer, image": ({"question": "How many?", "answer": 3, "image": "0.png"}, {}, "How"),
    "problem, solution, images": (
        {"problem": "How many?", "solution": "<answer>3</answer>", "images": ["0.png"]},
        {},
        "How",
    ),
    "query, label, file_name": ({"query": "How many?", "label": 3, "file_name": "0.png"}, {}, "How"),
    "nested columns": (
        {
            "prompt": [{"role": "user", "content": "<image>How many?"}],
            "images": [{"bytes": None, "path": "0.png"}],
            "reward_model": {"style": "rule", "ground_truth": "3"},
            "extra_info": {"answer": "3"},
        },
        {},
        "How",
    ),
    "messages": ({"messages": TALK, "images": ["0.png"]}, {}, "How"),
    "messages with parts": ({"messages": PARTS}, {}, "How"),
    "conversations": ({"conversations": SHAREGPT, "image": "0.png"}, {}, "\nHow"),
    "named by options": (
        {"problem": "How many?", "query": "no", "a": {"b": 3}, "answer": 4, "x": "0.png", "image": "1.png"},
        {"question": "problem", "answer_column": "a.b", "image": "x"},
        "How",
    ),
    "a column that cannot be one": (
        {"question": "How many?", "answer": 3, "ground_truth": "C", "image": "0.png"},
        {},
        "How",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FOUND)
def test_columns_are_found(case: str, tmp_path: Path) -> None:
    cells, options, question = FOUND[case]
    write_pictures(tmp_path, 1)
    loaded = load(write_rows(tmp_path / "data.jsonl", [cells]), answer="count", **options)
    (sample,) = loaded.samples
    assert sample.answer == 3
    assert len(sample.images) == 1
    assert text_of(loaded).startswith(f"<image>{question} many?\nThink first")


def test_earlier_messages_stay_in_front_of_the_question(tmp_path: Path) -> None:
    write_pictures(tmp_path, 1)
    table = write_rows(tmp_path / "data.jsonl", [{"messages": TALK, "images": ["0.png"]}])
    roles = [message.role for message in load(table, answer="count").samples[0].messages]
    assert roles == ["system", "user"]
    own = load(table, answer="count", system="Answer in French.").samples[0]
    assert own.messages[0].content == ("Answer in French.",)


QA = {"question": "How many?", "answer": 3, "image": "0.png"}
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "two gold answers": (
        {**QA, "ground_truth": 4},
        {},
        "the gold answer may be `answer` (3) or `ground_truth` (4); say which: options.answer_column=answer",
    ),
    "two questions": (
        {**QA, "prompt": "Count!"},
        {},
        "the question may be `question` ('How many?') or `prompt` ('Count!'); say which: options.question=question",
    ),
    "two pictures": (
        {**QA, "image_path": "1.png"},
        {},
        "the picture may be `image` ('0.png') or `image_path` ('1.png'); say which: options.image=image",
    ),
    "two lists of choices": (
        {**QA, "choices": ["1", "3"], "options": ["2", "3"]},
        {"answer": "choice"},
        "the choices may be `choices` (['1', '3']) or `options` (['2', '3']); say which: options.choices=choices",
    ),
    "no question": (
        {"answer": 3, "image": "0.png"},
        {},
        "no column for the question: looked for question, problem, prompt, query, instruction, text, messages, "
        "conversations; columns are answer, image; name it with options.question=…",
    ),
    "no answer": (
        {"question": "How many?", "image": "0.png", "bbox": [1, 2, 3, 4]},
        {},
        "columns are question, image, bbox; name it with options.answer_column=…; `bbox` ([1, 2, 3, 4]) would be "
        "options.answer=box or point",
    ),
    "no kind": (
        QA,
        {"answer": None},
        "say what the gold answers are: column `answer` (3) can be options.answer=choice or class or count or math or "
        "text or custom",
    ),
    "another kind": (
        {**QA, "answer": "three"},
        {},
        "no column fits as the gold answer: in `answer` the gold answer 'three' is not a whole number of at least 0; name "
        "another column with options.answer_column=…, or another kind with options.answer=…",
    ),
    "boxes as math": (
        {**QA, "answer": [1, 2, 3, 4]},
        {"answer": "math"},
        "the gold answer [1, 2, 3, 4] is neither a text nor a number; for boxes use options.answer=box",
    ),
    "a box's convention": (
        {**QA, "answer": [1, 2, 3, 4]},
        {"answer": "box"},
        "say how the boxes are written ([1, 2, 3, 4] in train/0): options.box_unit=pixels, resized, thousandths or "
        "normalised and options.box_corners=xyxy or xywh; the first rows fit pixels xyxy",
    ),
    "the corners of a box in JSON": (
        {**QA, "answer": "[1, 2, 3, 4]"},
        {"answer": "box", "box_unit": "pixels"},
        "say how the boxes are written ('[1, 2, 3, 4]' in train/0): options.box_corners=xyxy or xywh",
    ),
    "a box's corners": (
        {**QA, "answer": [0.1, 0.2, 0.3, 0.4]},
        {"answer": "box", "box_unit": "normalised"},
        "say how the boxes are written ([0.1, 0.2, 0.3, 0.4] in train/0): options.box_corners=xyxy or xywh; the first "
        "rows fit normalised xyxy, normalised xywh",
    ),
    "numbers of classes": (
        {**QA, "answer": 3},
        {"answer": "class"},
        "the classes are numbers (3): name them in the order of their numbers, options.classes=[cat, dog] or a text file",
    ),
    "classes that the reward takes for one": (
        {**QA, "answer": "10-1"},
        {"answer": "class", "classes": ["101", "A", "A-", "10-1"]},
        "the classes '101' and '10-1' are one name without case, spaces, underscores and hyphens; write them alike if they "
        "are one class, else rename one",
    ),
    "numbers of choices": (
        {**QA, "answer": 1, "choices": ["a", "b"]},
        {"answer": "choice"},
        "gold answers are numbers of choices (1 of 2 choices): say which number the first choice has, "
        "options.first_choice=0 or 1",
    ),
    "a wrong column": (
        QA,
        {"question": "qestion"},
        "options.question: no column 'qestion', or it is empty; columns are question, answer, image; did you mean question?",
    ),
    "an empty column": (
        {**QA, "note": None},
        {"image": "note"},
        "options.image: no column 'note', or it is empty",
    ),
    "a column of the prompt": (
        QA,
        {"prompt": "{question} {hint}"},
        "options.prompt: no column 'hint'; columns are question, answer, image; write {{ and }} for braces",
    ),
    "the gold answer in the prompt": (
        QA,
        {"prompt": "{question} {answer}"},
        "options.prompt: {answer} is the gold answer; write {{answer}} for these letters in braces",
    ),
    "a prompt that is not there": (
        QA,
        {"prompt": "mine.txt"},
        "options.prompt: no file mine.txt; give an existing file or the text itself",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_table_that_is_ambiguous_or_lacks_a_column_is_refused(case: str, tmp_path: Path) -> None:
    cells, options, message = REFUSED[case]
    write_pictures(tmp_path, 2)
    table = write_rows(tmp_path / "data.jsonl", [cells])
    with pytest.raises(DataError) as caught:
        load(table, **{"answer": "count", **options})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


ROWS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a picture that is not there": ({"image": "none.png"}, {}, "cannot read 'none.png' (No such file"),
    "no picture": ({"image": None}, {}, "no image, which is the picture (an empty list means a row without"),
    "another type": ({"image": 7}, {}, "no image (found int)"),
    "a URL": ({"image": "http://a.b/0.png"}, {}, "URLs are downloaded only with options.urls=true"),
    "broken base64": ({"image": "data:image/png;base64,?"}, {}, "its picture is not base64"),
    "no question": ({"question": " "}, {}, "no question, which is the question"),
    "a conversation without a question": (
        {"question": [{"role": "assistant", "content": "3"}]},
        {},
        "its conversation has no question",
    ),
    "an unknown role": ({"question": [{"role": "judge", "content": "3"}]}, {}, "unknown role 'judge'"),
    "a video": (
        {"question": [{"role": "user", "content": [{"type": "video", "video": "0.mp4"}]}]},
        {},
        "a part of type 'video' in a message; only text and image are read",
    ),
    "a column of the prompt": (
        {"hint": None},
        {"prompt": "{question} {hint} <answer>"},
        "no hint, which the prompt names",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ROWS)
def test_a_broken_row_is_a_defect_that_says_what_is_wrong(case: str, tmp_path: Path) -> None:
    cells, options, message = ROWS[case]
    write_pictures(tmp_path, 2)
    good = {**QA, "hint": "Look."}
    table = write_rows(tmp_path / "data.jsonl", [good, good, {**good, **cells}])
    with pytest.raises(DataError) as caught:
        load(table, answer="count", **options)
    (defect,) = caught.value.defects
    assert defect.startswith("train/2 (incomplete row")
    assert message in defect


def test_an_empty_table_and_no_table_say_so(tmp_path: Path) -> None:
    empty = tmp_path / "train.jsonl"
    empty.touch()
    with pytest.raises(DataError, match="the train split has no rows"):
        load(empty, answer="count")
    with pytest.raises(DataError, match="no such file or folder"):
        load(tmp_path / "none.jsonl", answer="count")


def test_a_line_that_cannot_be_read_is_one_defect(tmp_path: Path) -> None:
    path = write_table(tmp_path, rows(["cat", "dog"]))
    path.write_text(path.read_text() + "{broken\n")
    with pytest.raises(DataError) as caught:
        load(path, answer="class")
    assert len(caught.value.defects) == 1
    assert caught.value.defects[0].startswith("data.jsonl, line 3 (unreadable row: not JSON")


def test_two_rows_of_one_name_are_a_defect(tmp_path: Path) -> None:
    names = [{"name": "a"}, {"name": "b"}, {"name": "a"}]
    table = [{**row, **name} for row, name in zip(rows([1, 2, 3]), names, strict=True)]
    with pytest.raises(DataError) as caught:
        load(write_table(tmp_path, table), answer="count", id="name")
    assert caught.value.defects == ("a (id twice)",)


def test_ids_that_repeat_are_not_taken_as_names(tmp_path: Path) -> None:
    table = write_table(tmp_path, rows([1, 2], id="same"))
    assert [s.id for s in load(table, answer="count").samples] == ["train/0", "train/1"]


def write_csv(path: Path, delimiter: str) -> None:
    with path.open("w", newline="") as file:
        table = csv.writer(file, delimiter=delimiter)
        table.writerows([["question", "answer", "image"], ["How many?", "3", "0.png"]])


@pytest.mark.parametrize("suffix", ["csv", "tsv", "json", "parquet", "arrow", "bytes", "base64"])
def test_every_kind_of_table_and_of_picture_cell(suffix: str, tmp_path: Path) -> None:
    write_pictures(tmp_path, 1)
    content = (tmp_path / "0.png").read_bytes()
    path = tmp_path / f"data.{suffix}"
    if suffix in ("csv", "tsv"):
        write_csv(path, "," if suffix == "csv" else "\t")
    elif suffix == "json":
        path.write_text(json.dumps([QA]))
    elif suffix == "base64":
        url = f"data:image/png;base64,{base64.b64encode(content).decode()}"
        path = write_rows(tmp_path / "data.jsonl", [{**QA, "image": url}])
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        cell = content if suffix == "bytes" else {"bytes": content, "path": None}
        table = pa.Table.from_pylist([{**QA, "image": cell}])
        if suffix == "arrow":
            with pa.ipc.new_stream(path, table.schema) as stream:
                stream.write_table(table)
        else:
            path = tmp_path / "data.parquet"
            pq.write_table(table, path)
    (sample,) = load(path, answer="count").samples
    assert sample.answer == 3
    assert sample.images[0].size == (200, 100)


def test_pictures_may_lie_elsewhere_and_a_row_may_have_several_or_none(tmp_path: Path) -> None:
    write_pictures(tmp_path / "pictures", 2)
    table = [
        {**QA, "image": ["0.png", "1.png"]},
        {**QA, "image": []},
        {**QA, "image": "deep/1.png"},
    ]
    place = write_rows(tmp_path / "data.jsonl", table)
    samples = load(place, answer="count", images=str(tmp_path / "pictures")).samples
    assert [len(sample.images) for sample in samples] == [2, 0, 1]


def test_a_folder_of_datasets_is_read_with_the_names_of_its_classes(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    write_pictures(tmp_path, 2)
    cells = {"image": [str(tmp_path / f"{k}.png") for k in (0, 1)], "label": [1, 0]}
    label = datasets.ClassLabel(names=["ant", "bee"])
    features = datasets.Features({"image": datasets.Image(), "label": label})
    datasets.Dataset.from_dict(cells, features=features).save_to_disk(tmp_path / "saved")
    samples = load(tmp_path / "saved", answer="class", images=str(tmp_path)).samples
    assert [sample.answer for sample in samples] == ["bee", "ant"]


@pytest.mark.parametrize("place", ["next to the table", "in a folder of pictures", "in a zip"])
def test_a_picture_is_found_by_its_name_in_either_form_of_unicode(
    place: str, tmp_path: Path
) -> None:
    """A Mac takes letters with accents apart, and tables often have them whole."""
    write_pictures(tmp_path / "pictures", 1)
    whole, apart = (unicodedata.normalize(form, "é.png") for form in ("NFC", "NFD"))
    (tmp_path / "pictures" / "0.png").rename(tmp_path / "pictures" / apart)
    options: dict[str, Any] = {}
    folder = tmp_path
    if place == "next to the table":
        folder = tmp_path / "pictures"
    elif place == "in a folder of pictures":
        options = {"images": str(tmp_path / "pictures")}
    else:
        with zipfile.ZipFile(tmp_path / "pictures.zip", "w") as archive:
            archive.write(tmp_path / "pictures" / apart, f"deep/{apart}")
        options = {"images": str(tmp_path / "pictures.zip")}
    table = write_rows(folder / "data.jsonl", [{**QA, "image": whole}])
    (sample,) = load(table, answer="count", **options).samples
    assert sample.images[0].size == (200, 100)


@pytest.mark.parametrize("cell", ["pictures\\0.png", "C:\\data\\pictures\\0.png"])
def test_a_path_of_windows_is_one_with_folders(cell: str, tmp_path: Path) -> None:
    write_pictures(tmp_path / "pictures", 1)
    options = {"images": str(tmp_path)} if cell.startswith("C:") else {}
    table = write_rows(tmp_path / "data.jsonl", [{**QA, "image": cell}])
    assert len(load(table, answer="count", **options).samples[0].images) == 1
