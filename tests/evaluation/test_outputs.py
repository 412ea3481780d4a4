"""Stored outputs of other tools: records of what these tools write are read, and rows that cannot be read are listed."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from vlrft.cli.main import main
from vlrft.evaluation.outputs.columns import Keys
from vlrft.evaluation.outputs.read import read_outputs
from vlrft.schema.errors import ConfigError, DataError, OutputsError

FIXTURES = Path(__file__).parents[1] / "fixtures" / "outputs"
MCQ = {  # a row of a VLMEvalKit result: the columns of its data set, then the prediction
    "index": 241,
    "question": "Which one is the correct caption of this image?",
    "hint": None,
    "A": "A man riding a horse.",
    "B": "A cat on a mat.",
    "C": None,
    "D": None,
    "answer": "B",
    "category": "image_scene",
    "l2-category": "coarse_perception",
    "split": "dev",
    "prediction": "B",
}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_excel(path: Path, rows: list[dict[str, Any]]) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(list(rows[0]))
    for row in rows:
        book.active.append(list(row.values()))
    book.save(path)
    return path


def test_samples_of_lmms_eval_are_read_with_the_answer_as_the_model_wrote_it() -> None:
    old = read_outputs(FIXTURES / "0716c69_samples_cv_bench.jsonl")
    assert old.form == "lmms-eval's --log_samples"
    assert [(r.id, r.output, r.answer) for r in old.rows] == [
        ("0", "The chair. (B)", "B"),
        ("1", "C", "A"),  # its target is "(A)"
    ]
    new = read_outputs(FIXTURES / "75571cf_samples_counting.jsonl")
    assert [(r.id, r.output) for r in new.rows] == [
        ("0", "<think>two and two</think><answer>4</answer>"),
        ("1", "<answer>5</answer>"),
        ("2", "<answer>3</answer>"),
        ("2", "<answer>2</answer>"),
    ]


def test_published_results_of_r1v_are_read_by_their_order() -> None:
    outputs = read_outputs(FIXTURES / "r1v_superclevr.json")
    assert outputs.form == "R1-V's result json"
    first = outputs.rows[0]
    assert (first.id, first.output, first.answer) == ("0", "<answer>4</answer>", 4)
    assert read_outputs(FIXTURES / "r1v_geoqa.json").rows[3].id == "3"


@pytest.mark.parametrize("suffix", ["tsv", "xlsx", "json"])
def test_result_tables_of_vlmevalkit_are_read_with_options_and_categories(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"Qwen2-VL-2B_MMBench.{suffix}"
    rows = [MCQ, {**MCQ, "index": 242, "prediction": None}]
    if suffix == "xlsx":
        write_excel(path, rows)
    elif suffix == "json":
        path.write_text(json.dumps(rows, indent=4))
    else:
        with path.open("w", newline="") as file:  # pandas: to_csv(sep="\t", quoting=QUOTE_ALL)
            writer = csv.DictWriter(file, list(MCQ), delimiter="\t", quoting=csv.QUOTE_ALL)
            writer.writeheader()
            writer.writerows(rows)
    first, empty = read_outputs(path).rows
    assert (first.id, first.output, first.answer) == ("241", "B", "B")
    assert first.tags == {
        "category": "image_scene",
        "l2-category": "coarse_perception",
        "split": "dev",
        "answer": "choice",
        "options": "A man riding a horse.\nA cat on a mat.",
    }
    assert (empty.id, empty.output) == ("242", "")


def test_columns_of_a_plain_table_are_found_by_name_or_named(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    path.write_text("question_id,response,gt\n7,<answer>4</answer>,4\n")
    (row,) = read_outputs(path).rows
    assert (row.id, row.output, row.answer) == ("7", "<answer>4</answer>", "4")
    nested = write(tmp_path / "o.jsonl", [{"key": 1.0, "said": {"text": "4"}, "doc": {"a": 4}}])
    (row,) = read_outputs(nested, Keys(id="key", output="said.text", answer="doc.a")).rows
    assert (row.id, row.output, row.answer) == ("1", "4", 4)


def test_a_quote_that_is_not_closed_does_not_take_the_outputs_after_it(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    rows = [f"{k},<answer>{k}</answer>,9" for k in range(4)]
    path.write_text("\n".join(["id,output,answer", *rows]).replace("1,<", '1,"<'))
    with pytest.raises(
        OutputsError, match=r"1 of 2 rows cannot be read .*\n  lines 3 to 5: not csv"
    ):
        read_outputs(path)


def test_columns_that_are_missing_or_ambiguous_are_all_named_at_once(tmp_path: Path) -> None:
    row = {"number": 1, "response": "4", "pred": "4", "gold": 4, "label": 4}
    path = write(tmp_path / "o.jsonl", [row])
    with pytest.raises(ConfigError) as error:
        read_outputs(path)
    assert error.value.mistakes == [
        "no column of a known name (id, sample_id, question_id, doc_id, index, idx, qid, uid); name it with --id-key; "
        "columns: number, response, pred, gold, label",
        "several columns fit, response, pred; choose one with --output-key",
        "several columns fit, gold, label; choose one with --answer-key",
    ]
    with pytest.raises(ConfigError, match="--id-key nr: no such column; columns: number"):
        read_outputs(path, Keys(id="nr", output="pred", answer="gold"))


def test_an_object_of_ids_with_texts_is_a_row_each(tmp_path: Path) -> None:
    path = tmp_path / "o.json"
    path.write_text('{"a": "<answer>4</answer>", "b": ""}')
    assert [(r.id, r.output) for r in read_outputs(path).rows] == [
        ("a", "<answer>4</answer>"),
        ("b", ""),
    ]
    with pytest.raises(DataError, match="a folder; give one of its files"):
        read_outputs(tmp_path)


def test_every_row_that_cannot_be_read_is_listed_and_the_exit_code_is_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "o.jsonl"
    good = '{"id": 1, "output": "<answer>4</answer>", "answer": 4}\n'
    path.write_text(good + '{"id": 2, "answer": 4}\nnot json\n{"id": [3], "output": "x"}\n' + good)
    assert main(["score", "counting", "--predictions", str(path)]) == 2
    error = capsys.readouterr().err
    assert "3 of 5 rows cannot be read as rows with id 'id', output 'output'" in error
    for line in ("row 2: no 'output'", "line 3: not JSON", "row 4: 'id' is no id, but '[3]'"):
        assert line in error


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("o.txt", "x", "outputs are read from .parquet, .arrow, .jsonl"),
        (
            "o.json",
            "{}",
            "expected a list of objects, an object with one such list, or ids with texts; found none",
        ),
        ("o.json", '{"a": [{}], "b": [{}]}', r"found 2 such lists \(a, b\)"),
        ("o.xlsx", "PK", "not a readable xlsx workbook"),
    ],
)
def test_files_of_other_kinds_are_refused_with_what_can_be_read(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        read_outputs(tmp_path / name)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(OutputsError, match="has no rows"):
        read_outputs(tmp_path / "empty.jsonl")


def test_outputs_without_tags_are_graded_whole_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": k, "output": "<think>2 + 2</think> 4", "answer": "4"} for k in range(3)]
    rows.append({"id": 3, "output": "<answer>4</answer>", "answer": "4"})
    command = ["score", "counting", "--predictions", str(write(tmp_path / "o.jsonl", rows))]
    assert main(command) == 0
    assert "accuracy             1/4" in capsys.readouterr().out
    assert main([*command, "--untagged"]) == 0
    assert "accuracy             4/4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("p.json", '{"id": 1, "output": "7"}\n{"id": 2, "output": "8"}\n', "rename it to .jsonl"),
        ("p.json", '\n{"id": 1, "output": "7"}\n{"id": 2, "output": "8"}\n', "rename it to .jsonl"),
        ("p.jsonl", '[{"id": 1, "output": "7"}]\n', "rename it to .json"),
        ("p.jsonl", '\n[\n {"id": 1, "output": "7"}\n]\n', "rename it to .json"),
    ],
)
def test_a_table_under_the_suffix_of_another_form_says_how_to_name_it(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=rf"{name}: .*; {said}$"):
        read_outputs(tmp_path / name)


def test_a_first_line_that_is_a_list_is_one_unreadable_row(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('[1, 2]\n{"id": 1, "output": "7"}\n')
    with pytest.raises(
        OutputsError,
        match=r"1 of 2 rows cannot be read.*\n  line 1: expected an object, found list$",
    ):
        read_outputs(tmp_path / "p.jsonl")
