"""Folders as the hub, `save_to_disk` and data sets' authors lay them out: configs of the card, saved splits, archives."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vlrft.data import Source, open_source
from vlrft.data.source import Folder
from vlrft.schema import DataError

GSM8K = """---
configs:
- config_name: main
  data_files:
  - {split: train, path: main/train-*}
  - {split: test, path: main/test-*}
- config_name: socratic
  data_files:
  - {split: train, path: socratic/train-*}
---
"""
CV_BENCH = """---
configs:
- config_name: default
  data_files: [{split: test, path: "test*.parquet"}]
- config_name: 2D
  data_files: [{split: test, path: test_2d.parquet}]
---
"""
ONE_CONFIG = """---
configs:
- config_name: all
  data_files: [{split: train, path: ["a/part1.parquet", "a/part2.parquet"]}]
---
"""


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Tables with one row each, which says the table's name; a text is written as it is."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            pq.write_table(pa.table({"at": [name]}), path)
        else:
            path.write_text(text)
    return folder


def places(source: Source, split: str) -> list[str]:
    return [row["at"] for row in source.rows(split)]


@pytest.mark.parametrize("card", [GSM8K, ""])
def test_a_split_of_several_configs_is_read_of_the_one_that_is_given(
    tmp_path: Path, card: str
) -> None:
    """openai/gsm8k: the folders main and socratic have the same rows."""
    names = [f"{c}/{s}-00000-of-00001.parquet" for c in ("main", "socratic") for s in ("train",)]
    write(tmp_path, {"README.md": card, **dict.fromkeys(names, "")})
    with pytest.raises(
        DataError, match=r"in several configs, main, socratic; give .*/main or .*/soc"
    ):
        places(open_source(tmp_path), "train")
    assert places(open_source(tmp_path / "main"), "train") == ["main/train-00000-of-00001.parquet"]


def test_the_default_config_is_meant_where_there_is_one(tmp_path: Path) -> None:
    write(tmp_path, {"README.md": CV_BENCH, "test_2d.parquet": "", "test_3d.parquet": ""})
    assert places(open_source(tmp_path), "test") == ["test_2d.parquet", "test_3d.parquet"]


def test_the_card_says_which_files_are_a_split_whatever_their_names(tmp_path: Path) -> None:
    files = {"README.md": ONE_CONFIG, "a/part1.parquet": "", "a/part2.parquet": "", "b.parquet": ""}
    assert places(open_source(write(tmp_path, files)), "train") == [
        "a/part1.parquet",
        "a/part2.parquet",
    ]


@pytest.mark.parametrize("card", ["---\n[", "---\nconfigs: 3\n---", "---\nconfigs: [[1], {}]\n---"])
def test_a_card_without_configs_leaves_the_choice_to_names(tmp_path: Path, card: str) -> None:
    write(tmp_path, {"README.md": card, "train.parquet": ""})
    assert places(open_source(tmp_path), "train") == ["train.parquet"]


def test_folders_of_save_to_disk_are_read_by_their_state(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    png = {"bytes": b"\x89PNG", "path": None}
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "at": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
        }
    )
    rows = [{"image": png, "at": str(k), "label": k % 2} for k in range(3)]
    train = datasets.Dataset.from_list(rows, features=features, split="train")
    datasets.DatasetDict({"train": train, "test": train.select([2])}).save_to_disk(tmp_path / "all")
    train.save_to_disk(tmp_path / "one")
    stale = tmp_path / "all" / "train" / "data-00000-of-00009.arrow"
    stale.write_bytes(next((tmp_path / "all" / "test").glob("*.arrow")).read_bytes())
    for name in ("all", "one"):
        loaded = list(open_source(tmp_path / name).rows("train"))
        assert [(row["at"], row["label"]) for row in loaded] == [
            ("0", "cat"),
            ("1", "dog"),
            ("2", "cat"),
        ]
        assert loaded[0]["image"] == png
    assert places(open_source(tmp_path / "all"), "test") == ["2"]
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for path in (tmp_path / "all").rglob("*"):
            archive.write(path, path.relative_to(tmp_path))
    assert places(open_source(tmp_path / "all.zip"), "train") == ["0", "1", "2"]
    with pytest.raises(DataError, match="no table of the test split"):
        places(open_source(tmp_path / "one"), "test")


def test_a_damaged_state_names_the_folder(tmp_path: Path) -> None:
    state = '{"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}'
    write(tmp_path, {"train/state.json": state, "train/dataset_info.json": "{}"})
    with pytest.raises(DataError, match=r"train/state.json: not a dataset that save_to_disk wrote"):
        places(Folder(tmp_path), "train")


def content(source: Source, name: str) -> bytes:
    with source.open(name) as file:
        return file.read()


def pack(path: Path, files: Mapping[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as zipped:
            for name, content in files.items():
                zipped.writestr(name, content)
        return
    with tarfile.open(path, "w:gz" if path.suffix in (".gz", ".tgz") else "w:") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)


@pytest.mark.parametrize("suffix", [".zip", ".tar", ".tar.gz", ".tgz"])
def test_archives_of_a_folder_are_read_as_if_they_were_unpacked_there(
    tmp_path: Path, suffix: str
) -> None:
    row = json.dumps({"at": "packed"}).encode()
    pack(tmp_path / f"train{suffix}", {"train/rows.jsonl": row, "train/1.jpg": b"one"})
    pack(tmp_path / f"val{suffix}", {"rows.jsonl": row, "2.jpg": b"two", "../out.jpg": b"out"})
    source = open_source(tmp_path)
    assert [n for n in source.names() if not n.endswith(suffix)] == [
        "train/1.jpg",
        "train/rows.jsonl",
        "val/2.jpg",
        "val/rows.jsonl",
    ]
    assert places(source, "train") == places(source, "val") == ["packed"]
    with source.open("val/2.jpg") as file:
        assert file.read() == b"two"
        assert file.seek(1) == 1
        assert file.read() == b"wo"
    single = open_source(tmp_path / f"train{suffix}")
    assert content(single, "train/1.jpg") == b"one"
    assert places(single, "train") == ["packed"]
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "1.jpg").write_bytes(b"unpacked")
    assert content(open_source(tmp_path), "train/1.jpg") == b"unpacked"


@pytest.mark.parametrize(("name", "kind"), [("a.tgz", "archive"), ("a.tar", "tar archive")])
def test_an_archive_that_cannot_be_read_is_named(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).write_bytes(b"\x1f\x8b no archive")
    with pytest.raises(DataError, match=rf"{name}: not a readable {kind}"):
        open_source(tmp_path).names()


def test_a_json_object_with_one_list_of_objects_is_the_table(tmp_path: Path) -> None:
    """R1-V's evaluations: {"results": [...], "accuracy": 0.5}."""
    (tmp_path / "train.json").write_text('{"accuracy": 0.5, "results": [{"at": "a"}, {"at": "b"}]}')
    assert places(open_source(tmp_path), "train") == ["a", "b"]
    (tmp_path / "test.json").write_text('{"images": [{"id": 1}], "annotations": [{"id": 2}]}')
    with pytest.raises(DataError, match="found several lists of objects: images, annotations"):
        places(open_source(tmp_path), "test")
