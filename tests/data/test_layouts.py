"""A data set published in several forms: the first that is found is read, and a source with none of them is described."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.data.prepared import prepare_rows
from vlrft.data import (
    Dataset,
    Defect,
    Layout,
    Layouts,
    Row,
    Source,
    describe_files,
    open_source,
)
from vlrft.schema import DataError, Sample


@dataclass(frozen=True, kw_only=True)
class Options:
    data: str | None = None


def layout(name: str, suffix: str, *splits: str) -> Layout:
    def found(source: Source, split: str, options: Options) -> bool:
        return any(n.endswith(suffix) for n in source.names())

    def read(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
        for n in source.names():
            if n.endswith(suffix):
                yield Row(id=n, question=name, answer="1")

    return Layout(name=name, found=found, read=read, splits=splits)


SIGNS = Layouts((layout("boards/*.png", ".png"), layout("list.xml", ".xml", "test")))


def dataset(layouts: Layouts = SIGNS) -> Dataset:
    return Dataset(
        read=layouts,
        sample=lambda row, options: Sample(id=row.id, messages=(), answer=row.answer),
        sources={},
    )


def touch(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def test_the_first_layout_that_is_found_is_read(tmp_path: Path) -> None:
    source = open_source(touch(tmp_path, "a.png", "list.xml"))
    rows = dataset().rows(source, "test", Options())
    assert [row.question for row in rows if isinstance(row, Row)] == ["boards/*.png"]


def test_a_source_with_none_of_the_layouts_is_described(tmp_path: Path) -> None:
    touch(tmp_path, "README.md", "val.bin", "docs/a.txt", "docs/more/b.txt")
    with pytest.raises(DataError) as caught:
        dataset()("test", Options(data=str(tmp_path)))
    assert str(caught.value) == (
        f"{tmp_path}: no test split; looked for (1) boards/*.png; (2) list.xml; "
        "found README.md, docs/ (2 files), val.bin"
    )
    (tmp_path / "list.xml").touch()
    with pytest.raises(DataError, match=r"no train split; looked for \(1\) boards/\*.png; found"):
        dataset()("train", Options(data=str(tmp_path)))  # the list is published for the test alone
    assert len(dataset()("test", Options(data=str(tmp_path)))) == 1


def test_files_are_described_by_the_entries_of_the_first_folder_that_has_several(
    tmp_path: Path,
) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for k in range(3):
            archive.writestr(f"data/raw/images/{k}.jpg", b"")
        archive.writestr("data/raw/list.csv", b"")
    assert (
        describe_files(open_source(tmp_path / "a.zip"))
        == "data/raw/images/ (3 files), data/raw/list.csv"
    )
    for k in range(12):
        touch(tmp_path / "many", f"{k:02}.txt")
    assert describe_files(open_source(tmp_path / "many")).endswith("06.txt, 07.txt and 4 more")
    (tmp_path / "empty").mkdir()
    assert describe_files(open_source(tmp_path / "empty")) == "no files"


def test_a_split_without_rows_is_an_error_that_says_what_was_looked_for(tmp_path: Path) -> None:
    none = Layouts((Layout(name="a table", found=lambda *_: True, read=lambda *_: ()),))
    with pytest.raises(
        DataError, match=r"no row of the test split; looked for \(1\) a table; found x.txt"
    ):
        dataset(none)("test", Options(data=str(touch(tmp_path, "x.txt"))))
    for rows, problem in (
        ([], "there is none"),
        ([Defect(id="1", reason="torn")], r"can be used, 1 cannot, the first: 1 \(torn\)"),
    ):
        with pytest.raises(DataError, match=rf"w: no row of the t split:? {problem}; looked for …"):
            prepare_rows(rows, tmp_path / "out", explain=lambda: "looked for …")
        assert not list((tmp_path / "out").glob("*.part"))


def test_a_split_that_fails_before_its_first_row_leaves_no_files(tmp_path: Path) -> None:
    def rows(stop: int) -> Iterator[Row]:
        for k in range(stop):
            yield Row(id=str(k), question="?", answer="1")
        raise DataError("no table")

    for stop, parts in ((0, []), (2, ["t.defects.jsonl.part", "t.jsonl.part", "t.origin.part"])):
        with pytest.raises(DataError, match="no table"):
            prepare_rows(rows(stop), tmp_path / "out")
        assert sorted(p.name for p in (tmp_path / "out").glob("*.part")) == parts
    assert [
        json.loads(x)["id"] for x in (tmp_path / "out/t.jsonl.part").read_text().splitlines()
    ] == ["0", "1"]


def test_a_layout_of_one_data_set_is_looked_for_with_its_options(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Chosen(Options):
        country: str

    german = replace(layout("schilder/*.png", ".png"), options={"country": "de"})
    layouts = Layouts((german, layout("list.xml", ".xml")))
    source = open_source(touch(tmp_path, "a.png", "list.xml"))
    for country, names in (("de", ["schilder/*.png"]), ("fr", ["list.xml"])):
        rows = dataset(layouts).rows(source, "test", Chosen(country=country))
        assert [row.question for row in rows if isinstance(row, Row)] == names
    assert layouts.forms("test", Chosen(country="fr")) == "(1) list.xml"
