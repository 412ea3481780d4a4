"""Tables as `datasets` and the hub's repositories have them: a split in two formats, descriptions next to tables, and classes by number."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fixtures.published.forms import hub_from, write
from tests.fixtures.published.record import load_records
from vlrft.data import open_source
from vlrft.data.class_names import ClassName, class_names
from vlrft.data.layouts import has_tables
from vlrft.plugins.find import find_task
from vlrft.schema import DataError
from vlrft.schema.errors import MissingSplit


def described(columns: Mapping[str, Sequence[Any]], features: Mapping[str, Any]) -> pa.Table:
    """A table with the description of its columns that `datasets` writes into the schema's metadata."""
    text = json.dumps({"info": {"features": features}})
    return pa.table(dict(columns)).replace_schema_metadata({"huggingface": text})


PETS = described(
    {"n": [0, 1, 2], "label": [1, 0, -1]},
    {
        "n": {"dtype": "int64", "_type": "Value"},
        "label": {"names": ["Abyssinian", "american bulldog"], "_type": "ClassLabel"},
    },
)


def test_a_split_in_two_formats_is_read_once_from_the_parquet(tmp_path: Path) -> None:
    """CV-Bench's repository: each of two parts as parquet, with its pictures, and as jsonl."""
    for part in ("2d", "3d"):
        pq.write_table(
            pa.table({"idx": [0, 1], "part": [part] * 2}), tmp_path / f"test_{part}.parquet"
        )
        lines = [json.dumps({"idx": k, "part": part, "twin": True}) + "\n" for k in range(2)]
        (tmp_path / f"test_{part}.jsonl").write_text("".join(lines))
    source = open_source(tmp_path)
    rows = [dict(row) for row in source.rows("test")]
    assert rows == [{"idx": k, "part": part} for part in ("2d", "3d") for k in range(2)]
    assert source.notes == [  # type: ignore[attr-defined]
        "the test split is read from test_2d.parquet, test_3d.parquet; the same split in another format is not read: "
        "test_2d.jsonl, test_3d.jsonl"
    ]


def test_descriptions_that_datasets_saves_are_no_tables(tmp_path: Path) -> None:
    folder = tmp_path / "train"
    folder.mkdir()
    with pa.ipc.new_stream(folder / "data-00000-of-00001.arrow", PETS.schema) as stream:
        stream.write_table(PETS)
    (folder / "dataset_info.json").write_text('{"features": {}}')
    (folder / "state.json").write_text('{"_split": "train"}')
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train"]}')
    source = open_source(tmp_path)
    assert [row["n"] for row in source.rows("train")] == [0, 1, 2]
    assert source.notes == []  # type: ignore[attr-defined]
    assert has_tables(source, "train")
    assert not has_tables(source, "test")
    with pytest.raises(DataError, match=r"no table of the test split.*, found train/data-00000-of"):
        list(source.rows("test"))


def test_classes_are_read_as_the_names_that_the_columns_have(tmp_path: Path) -> None:
    pq.write_table(PETS, tmp_path / "train.parquet")
    with pa.ipc.new_stream(tmp_path / "test.arrow", PETS.schema) as stream:
        stream.write_table(PETS)
    for split in ("train", "test"):
        rows = list(open_source(tmp_path).rows(split))
        assert [row["label"] for row in rows] == ["american bulldog", "Abyssinian", None]
        assert [row["n"] for row in rows] == [0, 1, 2]
        assert isinstance(rows[0]["label"], ClassName)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b'{"info": {"features": [1]}}', b'{"info": {"features": {"a": 1}}}']
)
def test_metadata_of_another_kind_describe_no_class(text: bytes) -> None:
    assert class_names({b"huggingface": text}) == {}
    assert class_names(None) == {}


def test_a_split_that_a_hub_id_does_not_have_is_missing(tmp_path: Path) -> None:
    copy = write(load_records()["geoqa_train"], "hub", tmp_path)
    task = find_task("geoqa")
    with hub_from(copy.hub, tmp_path / "cache"):
        assert len(task.load("train", task.options(data=copy.data))) == 8
        with pytest.raises(
            MissingSplit,
            match=r"GEOQA_R1V_Train_8K: no test split on the hub.*looked for \(1\) geoqa_test",
        ):
            task.load("test", task.options(data=copy.data))
