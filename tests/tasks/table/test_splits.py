"""Splits by name, by column, by path or by a drawn share; one table is never two splits."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.table.tables import load, rows, write_pictures, write_rows, write_table
from vlrft.data import RowSamples
from vlrft.schema import DataError
from vlrft.schema.errors import MissingSplit


def answers(data: Path, split: str, **options: Any) -> list[int]:
    return [sample.answer for sample in load(data, split, answer="count", **options).samples]


def test_one_table_is_the_train_split_alone(tmp_path: Path) -> None:
    table = write_table(tmp_path, rows([1, 2]))
    assert answers(table, "train") == [1, 2]
    with pytest.raises(MissingSplit) as caught:
        answers(table, "test")
    assert str(caught.value).endswith(
        "data.jsonl: no test split (found data); give its place or its name, options.splits={test: PATH}, or draw one from "
        "the rows, options.test_share=0.1"
    )


def test_a_table_that_is_named_after_a_split_is_that_split_alone(tmp_path: Path) -> None:
    table = write_table(tmp_path, rows([1, 2]), "birds_test.jsonl")
    assert answers(table, "test") == [1, 2]
    with pytest.raises(MissingSplit, match=r"no train split \(found birds_test, birds, test\)"):
        answers(table, "train")


NAMES = {
    "tables": ("train.jsonl", "test.jsonl"),
    "tables with more in their names": ("birds_train.jsonl", "birds_test.jsonl"),
    "folders": ("train/a.jsonl", "test/a.jsonl"),
    "years": ("train2017.jsonl", "test2017.jsonl"),
}


@pytest.mark.parametrize("case", NAMES)
def test_splits_by_the_names_of_tables_and_folders(case: str, tmp_path: Path) -> None:
    train, test = NAMES[case]
    write_table(tmp_path, rows([1, 2]), train)
    write_table(tmp_path, rows([3]), test)
    assert answers(tmp_path, "train") == [1, 2]
    assert answers(tmp_path, "test") == [3]
    with pytest.raises(MissingSplit, match="no validation split"):
        answers(tmp_path, "validation")


def test_a_validation_split_may_be_named_val_and_another_one_by_the_options(tmp_path: Path) -> None:
    write_table(tmp_path, rows([1]), "val.jsonl")
    write_table(tmp_path, rows([2]), "testA.jsonl")
    assert answers(tmp_path, "validation") == [1]
    assert answers(tmp_path, "test", splits={"test": "testA"}) == [2]
    with pytest.raises(DataError, match=r"no 'testB', neither a path nor a name in testA, val"):
        answers(tmp_path, "test", splits={"test": "testB"})


def test_a_split_at_another_place(tmp_path: Path) -> None:
    table = write_table(tmp_path, rows([1, 2]), "a.jsonl")
    other = write_rows(tmp_path / "b.jsonl", rows([3]))
    assert answers(table, "test", splits={"test": str(other)}) == [3]


def test_several_tables_without_names_of_splits_are_ambiguous(tmp_path: Path) -> None:
    write_table(tmp_path, rows([1]), "one.jsonl")
    write_table(tmp_path, rows([2]), "two.jsonl")
    with pytest.raises(
        DataError,
        match=r"2 tables.*: one, two; say which is which, such as options.splits=\{train: one\}",
    ):
        answers(tmp_path, "train")
    assert answers(tmp_path, "train", splits={"train": "two"}) == [2]


@pytest.mark.parametrize("option", [{}, {"split_column": "split"}])
def test_splits_by_a_column(option: dict[str, str], tmp_path: Path) -> None:
    table = [
        {**row, "split": name}
        for row, name in zip(rows([1, 2, 3]), ("train", "val", "train"), strict=True)
    ]
    path = write_table(tmp_path, table)
    assert answers(path, "train", **option) == [1, 3]
    assert answers(path, "validation", **option) == [2]
    with pytest.raises(
        MissingSplit, match="no row with test or testing in column 'split', which has train, val"
    ):
        answers(path, "test", **option)
    with pytest.raises(DataError, match=r"options.split_column: no column 'part'"):
        answers(path, "train", split_column="part")


def test_a_share_of_the_rows_is_drawn_with_a_seed(tmp_path: Path) -> None:
    path = write_table(tmp_path, rows(list(range(10))))
    parts = [answers(path, split, test_share=0.3) for split in ("train", "test")]
    assert sorted(map(len, parts)) == [3, 7]
    assert sorted([*parts[0], *parts[1]]) == list(range(10))
    assert answers(path, "test", test_share=0.3) == parts[1]
    assert any(answers(path, "test", test_share=0.3, seed=k) != parts[1] for k in (1, 2))


def test_a_share_is_drawn_from_the_rows_of_the_train_split_alone(tmp_path: Path) -> None:
    table = rows(list(range(10)), part="train") + rows(list(range(10, 20)), part="val")
    path = write_table(tmp_path, table)
    for options in (
        {"split_column": "part"},
        {"split_column": "part", "splits": {"validation": "val"}},
    ):
        splits = ("train", "test", "validation")
        parts = [answers(path, split, test_share=0.3, **options) for split in splits]
        assert sorted([*parts[0], *parts[1]]) == list(range(10))
        assert parts[2] == list(range(10, 20))


def test_questions_about_one_picture_stay_together(tmp_path: Path) -> None:
    write_pictures(tmp_path, 4)
    table = [{"image": f"{k % 4}.png", "question": "?", "answer": k} for k in range(12)]
    test = answers(write_rows(tmp_path / "data.jsonl", table), "test", test_share=0.25)
    assert len(test) == 3
    assert len({answer % 4 for answer in test}) == 1


@pytest.mark.parametrize("path", [None, "image.png"])
def test_questions_about_one_embedded_picture_stay_together(
    path: str | None, tmp_path: Path
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    write_pictures(tmp_path, 4)
    pictures = [{"bytes": (tmp_path / f"{k}.png").read_bytes(), "path": path} for k in range(4)]
    table = [{"image": pictures[k % 4], "question": "?", "answer": k} for k in range(12)]
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "data.parquet")
    test = answers(tmp_path / "data.parquet", "test", test_share=0.25)
    assert len(test) == 3
    assert len({answer % 4 for answer in test}) == 1


def test_a_share_next_to_a_test_split_or_of_too_few_rows_is_refused(tmp_path: Path) -> None:
    path = write_table(tmp_path, rows([1, 2]))
    with pytest.raises(
        DataError, match=r"options.test_share=0.1 of 2 pictures or rows is 0; use another share"
    ):
        answers(path, "test", test_share=0.1)
    write_table(tmp_path / "both", rows([1]), "train.jsonl")
    write_table(tmp_path / "both", rows([2]), "test.jsonl")
    with pytest.raises(DataError, match=r"has a test split of its own; remove options.test_share"):
        answers(tmp_path / "both", "train", test_share=0.5)


def test_a_hub_id_has_the_splits_that_the_hub_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def hub_rows(name: str, config: str | None, split: str) -> Iterator[dict[str, Any]]:
        if split != "train":
            raise DataError(f"{name}: cannot load the {split} split from the hub")
        yield from ({"question": "How many?", "answer": k} for k in range(4))

    monkeypatch.setattr("vlrft.data.source.hub_rows", hub_rows)
    assert answers(Path("me/set"), "train") == [0, 1, 2, 3]
    with pytest.raises(MissingSplit, match=r"cannot load the test split.*options.test_share=0.1"):
        answers(Path("me/set"), "test")
    assert len(answers(Path("me/set"), "test", test_share=0.5)) == 2


def test_a_zip_is_read_as_its_folder(tmp_path: Path) -> None:
    write_table(tmp_path / "raw", rows([1, 2]), "train.jsonl")
    with zipfile.ZipFile(tmp_path / "raw.zip", "w") as archive:
        for path in (tmp_path / "raw").iterdir():
            archive.write(path, path.name)
    samples = load(tmp_path / "raw.zip", answer="count").samples
    assert [sample.images[0].size for sample in samples] == [(200, 100)] * 2


@pytest.mark.parametrize("named", [("train", "test"), ("test",)])
def test_one_file_cannot_be_named_as_train_and_test(named: tuple[str, ...], tmp_path: Path) -> None:
    table = write_table(tmp_path, rows([1, 2]))
    for split in ("train", "test"):
        with pytest.raises(DataError, match=r"is train and test at once; .*test_share"):
            answers(table, split, splits=dict.fromkeys(named, str(table)))


def test_a_table_without_rows_and_a_broken_one_say_so(tmp_path: Path) -> None:
    for name, content, said in (
        ("empty.csv", "", "the train split has no rows"),
        ("header.csv", "image,label\n", "the train split has no rows"),
        ("broken.json", '[{"image"', "no row can be read; broken.json: not JSON"),
    ):
        table = tmp_path / name
        table.write_text(content, encoding="utf-8")
        with pytest.raises(DataError, match=said):
            answers(table, "train")


def test_a_csv_with_semicolons_is_read(tmp_path: Path) -> None:
    write_pictures(tmp_path)
    table = tmp_path / "excel.csv"
    table.write_text(
        "image;question;answer\n0.png;How many, in all?;3\n1.png;How many?;4\n", encoding="utf-8"
    )
    assert answers(table, "train") == [3, 4]


@pytest.mark.parametrize(
    ("wanted", "said"), [("dta.csv", "no such file or folder; did you mean"), ("x.csv", "no such")]
)
def test_a_misspelled_table_is_no_hub_id(
    wanted: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows(tmp_path / "mine" / "data.csv", [])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=said):
        load(Path("mine") / wanted, "train", answer="count")


@pytest.mark.parametrize("typo", ["tets", "Test", None])
def test_a_split_column_with_a_cell_that_is_no_split_is_refused(
    typo: str | None, tmp_path: Path
) -> None:
    cells = rows([1, 2], split="train") + rows([3], split="test") + rows([4], split=typo)
    table = write_table(tmp_path, cells)
    for split in ("train", "test"):
        with pytest.raises(DataError, match=f"column 'split' has .*, of which {typo} is no split"):
            answers(table, split)
    named = {"train": "train", "test": str(typo)}
    assert answers(table, "train", splits=named | {"validation": "test"}) == [1, 2]
    assert answers(table, "test", splits=named | {"validation": "test"}) == [4]


def test_a_column_split_of_something_else_is_no_column_of_splits(tmp_path: Path) -> None:
    table = write_table(tmp_path, rows([1], split="a") + rows([2], split="b"))
    assert answers(table, "train") == [1, 2]


def test_an_unknown_split_of_the_options_is_refused(tmp_path: Path) -> None:
    table = write_table(tmp_path, rows([1, 2]))
    with pytest.raises(
        ValueError, match=r"splits: no split 'tset'; known: train, validation, test"
    ):
        answers(table, "train", splits={"tset": str(table)})


def test_a_name_in_the_data_is_not_taken_for_a_folder_that_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(tmp_path / "here" / "a", rows([8, 9]))
    monkeypatch.chdir(tmp_path / "here")
    column = write_table(tmp_path / "column", [{**row, "part": "a"} for row in rows([1, 2])])
    assert answers(column, "train", split_column="part", splits={"train": "a"}) == [1, 2]
    write_table(tmp_path / "tables", rows([3]), "a.jsonl")
    write_table(tmp_path / "tables", rows([4]), "b.jsonl")
    assert answers(tmp_path / "tables", "train", splits={"train": "a"}) == [3]
    assert answers(tmp_path / "tables", "train", splits={"train": "./a"}) == [8, 9]
    assert answers(tmp_path / "tables", "test", splits={"train": "b", "test": "a/data.jsonl"}) == [
        8,
        9,
    ]


@pytest.mark.parametrize("option", [{}, {"split_column": "split"}])
def test_rows_of_no_split_are_noted(option: dict[str, str], tmp_path: Path) -> None:
    """A column of splits is recognised by its first thousand rows."""
    cells = [{"question": "?", "answer": k, "split": "train"} for k in range(1000)]
    table = write_rows(tmp_path / "data.jsonl", [*cells, *({**cells[0], "split": "tset"},) * 2])
    samples = load(table, answer="count", **option).samples
    assert isinstance(samples, RowSamples)
    assert len(samples) == 1000
    (note,) = samples.notes
    assert note.startswith("2 rows with tset in column 'split' not used: no split has that name")
    samples = load(table, answer="count", splits={"test": "tset"}, **option).samples
    assert isinstance(samples, RowSamples)
    assert samples.notes == ()
