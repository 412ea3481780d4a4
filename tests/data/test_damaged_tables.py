"""Tables of which a part cannot be read: the rest is, under the numbers that it has in the whole file."""

from __future__ import annotations

import json
import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.test_hostile_rows import lines, png, row
from tests.vision.test_picture_files import damage
from vlrft.cli.main import main
from vlrft.data import Source, open_source
from vlrft.data.pictures import read_file
from vlrft.data.tables import SUFFIXES
from vlrft.schema import DataError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    return tmp_path / "raw"


def unreadable(source: Source) -> list[str]:
    return [defect.id for defect in source.unreadable]  # type: ignore[attr-defined]


def parquet_rows(count: int) -> list[dict[str, Any]]:
    return [
        {"id": f"r{k}", "image": png(shade=k), "problem": f"How long is {k}? " * 9, "solution": "5"}
        for k in range(count)
    ]


def flip_page(path: Path, group: int) -> None:
    """Inverts bytes of a row group's questions."""
    metadata = pq.ParquetFile(path).metadata.row_group(group)
    chunks = [metadata.column(k) for k in range(metadata.num_columns)]
    place = next(c.data_page_offset for c in chunks if c.path_in_schema == "problem")
    content = bytearray(path.read_bytes())
    for k in range(place + 20, place + 60):
        content[k] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize("checksums", [False, True])
def test_a_damaged_row_group_of_parquet_is_listed_and_the_others_are_read(
    here: Path, checksums: bool
) -> None:
    settings: dict[str, Any] = {"row_group_size": 4, "use_dictionary": False}
    table = pa.Table.from_pylist(parquet_rows(12))
    pq.write_table(table, here / "train.parquet", write_page_checksum=checksums, **settings)
    flip_page(here / "train.parquet", 1)
    command = ["data", "prepare", "geoqa", "--from", "raw", "--out", "out", "--split", "train"]
    assert main(command) == 0
    rows = [json.loads(line)["id"] for line in Path("out/train.jsonl").read_text().splitlines()]
    assert rows == [f"r{k}" for k in (0, 1, 2, 3, 8, 9, 10, 11)]
    (defect,) = map(json.loads, Path("out/train.defects.jsonl").read_text().splitlines())
    assert defect["id"] == "train.parquet, rows 4 to 7"
    assert "row group 1 is damaged" in defect["detail"]
    assert "4 rows are lost" in defect["detail"]


def test_rows_after_damage_keep_their_numbers(here: Path) -> None:
    """Rows without an id are named by their numbers: stored outputs of the whole file must find their questions."""
    table = pa.Table.from_pylist(parquet_rows(6)).drop_columns(["id"])
    for name, page in (("train-0.parquet", 0), ("train-1.parquet", 1)):
        pq.write_table(table, here / name, row_group_size=2, use_dictionary=False)
        flip_page(here / name, page)
    with pytest.raises(DataError, match=r"train-0.parquet, rows 0 to 1: row group 0 is damaged"):
        list(open_source("raw").rows("train"))
    source = open_source("raw", unreadable=[])
    numbers = [r.number for r in source.rows("train")]  # type: ignore[attr-defined]
    assert numbers == [2, 3, 4, 5, 6, 7, 10, 11]
    assert unreadable(source) == ["train-0.parquet, rows 0 to 1", "train-1.parquet, rows 2 to 3"]
    plain = {"problem": "q", "solution": "5", "image": "x"}
    (here / "test.jsonl").write_bytes(lines(plain, "{", plain))
    source = open_source("raw", unreadable=[])
    assert [r.number for r in source.rows("test")] == [0, 2]  # type: ignore[attr-defined]


def write_stream(path: Path, rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows)
    with pa.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table)


def test_offsets_outside_of_an_arrow_file_s_memory_are_not_followed(here: Path) -> None:
    write_stream(
        here / "train.arrow", [{"problem": "first question"}, {"problem": "the second one"}]
    )
    content = (here / "train.arrow").read_bytes()
    offsets, beyond = struct.pack("<3i", 0, 14, 28), struct.pack("<3i", 0, 14, 2_000_000_000)
    assert content.count(offsets) == 1
    (here / "train.arrow").write_bytes(content.replace(offsets, beyond))
    source = open_source("raw", unreadable=[])
    assert [r["problem"] for r in source.rows("train")] == ["first question"]
    assert unreadable(source) == ["train.arrow, row 1"]


def test_a_text_that_is_not_utf_8_costs_its_row_of_an_arrow_file(here: Path) -> None:
    write_stream(here / "train.arrow", [{"problem": text} for text in ("one", "two", "six")])
    content = (here / "train.arrow").read_bytes()
    (here / "train.arrow").write_bytes(content.replace(b"onetwosix", b"onet\xffosix"))
    source = open_source("raw", unreadable=[])
    assert [r["problem"] for r in source.rows("train")] == ["one", "six"]
    assert unreadable(source) == ["train.arrow, row 1"]


def test_a_cell_of_more_than_the_usual_limit_of_csv_is_read(here: Path) -> None:
    (here / "train.csv").write_text(f"id,problem\nr0,{'x' * 140_000}\nr1,y\n")
    assert [len(r["problem"]) for r in open_source("raw").rows("train")] == [140_000, 1]


def test_a_cell_of_csv_beyond_the_limit_costs_its_row(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.data.tables.MAX_CELL", 100)
    (here / "train.csv").write_text('id,problem\nr0,"' + "x\n" * 100 + '"\nr1,y\n')
    source = open_source("raw", unreadable=[])
    assert [r["id"] for r in source.rows("train")] == ["r1"]
    assert unreadable(source) == ["train.csv, line 2"]


def test_a_line_of_jsonl_beyond_the_limit_is_skipped_in_pieces(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.data.tables.MAX_LINE", 1000)
    monkeypatch.setattr("vlrft.data.tables.CHUNK", 100)
    (here / "train.jsonl").write_bytes(lines(row(0), row(1, id="i" * 5000), row(2)))
    source = open_source("raw", unreadable=[])
    assert [r["id"] for r in source.rows("train")] == ["r0", "r2"]
    assert unreadable(source) == ["train.jsonl, line 2"]


def test_a_column_of_csv_that_is_there_twice_is_an_error(here: Path) -> None:
    (here / "train.csv").write_text("id,answer,answer\nr0,1,2\n")
    with pytest.raises(DataError, match=r"train.csv: the column 'answer' is there twice"):
        list(open_source("raw").rows("train"))


def test_a_table_in_a_zip_whose_data_are_damaged_ends_with_a_defect(here: Path) -> None:
    with zipfile.ZipFile("raw.zip", "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("train-0.jsonl", lines(*map(row, range(200))))
        archive.writestr("train-1.jsonl", lines(row(200)))
    content = Path("raw.zip").read_bytes()
    Path("raw.zip").write_bytes(content.replace(b'"id": "r199"', b'"id": "r198"'))
    source = open_source("raw.zip", unreadable=[])
    rows = [r["id"] for r in source.rows("train")]
    assert (rows[0], rows[-1]) == ("r0", "r200")
    (place,) = unreadable(source)
    assert place.startswith("train-0.jsonl")


@pytest.mark.parametrize("where", ["x" * 300, "a\0b", "~nobody_at_all/x", "x\ud83d"])
def test_a_place_that_no_file_system_has_is_an_error_of_one_line(where: str) -> None:
    with pytest.raises(DataError) as error:
        open_source(where)
    assert "\n" not in str(error.value)


def test_a_zip_with_a_broken_directory_is_an_error_of_one_line() -> None:
    with zipfile.ZipFile("raw.zip", "w") as archive:
        archive.writestr("1.png", png())
    content = bytearray(Path("raw.zip").read_bytes())
    end = content.index(b"PK\5\6")
    content[end + 12 : end + 20] = b"\xff" * 8
    Path("raw.zip").write_bytes(content)
    for use in (lambda source: source.names(), lambda source: read_file(source, "1.png")):
        with pytest.raises(DataError, match=r"raw\.zip: not a readable zip archive"):
            use(open_source("raw.zip"))


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    match path.suffix:
        case ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=4)
        case ".arrow":
            write_stream(path, rows)
        case ".jsonl":
            path.write_bytes(lines(*rows))
        case ".json":
            path.write_text(json.dumps(rows))
        case _:
            cells = (",".join(map(str, r.values())) for r in rows)
            path.write_text("\n".join([",".join(rows[0]), *cells]) + "\n")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_damaged_table_gives_rows_and_names_what_is_lost(here: Path, suffix: str) -> None:
    draw = random.Random(suffix)
    path = here / f"train{suffix}"
    write_table(path, [{"id": f"r{k}", "problem": f"How long is {k}?", "n": k} for k in range(12)])
    content = path.read_bytes()
    with_loss = 0
    for _ in range(60):
        path.write_bytes(damage(content, draw))
        source = open_source("raw", unreadable=[])
        rows = list(source.rows("train"))
        assert all(isinstance(r, dict) for r in rows)
        assert all(place.startswith(path.name) for place in unreadable(source))
        assert rows or unreadable(source)
        with_loss += bool(unreadable(source))
    assert with_loss > 5
