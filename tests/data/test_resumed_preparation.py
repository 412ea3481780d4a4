"""Preparation of rows that is stopped, goes on, or meets the data of another task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data.prepared import prepare_rows
from vlrft.data import Defect, Row, prepare
from vlrft.schema import DataError


class Stopped(Exception):
    pass


def rows(stop: int | None = None, yielded: list[int] | None = None) -> Iterator[Row | Defect]:
    for k in range(8):
        if k == stop:
            raise Stopped
        if yielded is not None:
            yielded.append(k)
        if k % 3 == 1:
            yield Defect(id=str(k), reason="odd")
        else:
            yield Row(id=str(k % 6), question="q", answer=str(k))


def write(out: Path, items: Iterator[Row | Defect], checked: list[str] | None = None) -> int:
    def check_sample(row: Row) -> None:
        if checked is not None:
            checked.append(row.id)

    prepared = prepare(
        items, task="t", split="train", where="w", out=out, check_sample=check_sample
    )
    return prepared.resumed


def test_an_interrupted_preparation_resumes_and_gives_the_same_files(tmp_path: Path) -> None:
    assert write(tmp_path / "whole", rows()) == 0
    with pytest.raises(Stopped):
        write(tmp_path / "two", rows(stop=5))
    with (tmp_path / "two" / "train.jsonl.part").open("a") as file:
        file.write('{"id": "unfini')
    checked: list[str] = []
    assert write(tmp_path / "two", rows(), checked) == 5
    assert checked == ["5"]  # stored rows are not checked again; the id of row 6 was stored
    assert "id twice" in (tmp_path / "two" / "train.defects.jsonl").read_text()
    for name in ("train.jsonl", "train.defects.jsonl", "manifest.json"):
        assert (tmp_path / "two" / name).read_text() == (tmp_path / "whole" / name).read_text()
    assert not list((tmp_path / "two").glob("*.part"))


def test_a_folder_with_data_of_another_task_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "out", rows())
    with pytest.raises(DataError, match=r"contains the data of 't'; use another --out"):
        prepare_rows([], tmp_path / "out", task="u", split="x")
    with pytest.raises(DataError, match=r"no row of the x split can be used, 1 cannot.*0 .odd"):
        prepare_rows([Defect(id="0", reason="odd")], tmp_path / "out", task="t", split="x")
    assert not list((tmp_path / "out").glob("*.part"))
