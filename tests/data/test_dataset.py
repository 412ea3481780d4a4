"""Reading images, tables, folders and zips; samples made on access."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from vlrft.data import LazySamples, open_image, open_source
from vlrft.data.hub import hub_rows
from vlrft.data.pictures import parse_picture, read_file
from vlrft.data.source import notes_of
from vlrft.schema import DataError, Sample
from vlrft.schema.errors import MissingSplit
from vlrft.testing.small_policies import noise_image

ROWS = [{"id": "a", "n": 1}, {"id": "b", "n": 2}]


def encode(image: Image.Image, kind: str = "PNG", **settings: object) -> bytes:
    file = io.BytesIO()
    image.save(file, format=kind, **settings)
    return file.getvalue()


@pytest.mark.parametrize(("name", "missing"), [("train.jsonl", "test"), ("a_test.jsonl", "train")])
def test_a_table_that_is_named_after_one_split_is_no_other(
    name: str, missing: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text('{"a": 1}\n')
    source = open_source(tmp_path / name)
    with pytest.raises(MissingSplit, match=f"no table of the {missing} split"):
        list(source.rows(missing))
    assert len(list(source.rows("train" if missing == "test" else "test"))) == 1
    assert len(list(source.rows("predictions"))) == 1


def test_a_nameless_table_that_is_read_as_the_test_split_is_noted(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n')
    source = open_source(tmp_path / "rows.jsonl")
    list(source.rows("train"))
    assert not notes_of(source)
    list(source.rows("test"))
    assert "one table without the name of a split" in notes_of(source)[0]


def test_a_picture_is_turned_upright_by_its_exif_tag() -> None:
    image = noise_image(40, 20)
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate by 270°
    upright = open_image(encode(image, "PNG", exif=exif), "x")
    assert upright.size == (20, 40)
    assert np.array_equal(np.asarray(upright), np.rot90(np.asarray(image), 3))


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_pixels_become_white(mode: str) -> None:
    clear = Image.new("RGBA", (4, 4), (0, 0, 0, 0)).convert(mode)
    settings = {"transparency": 0} if mode == "P" else {}
    opaque = open_image(encode(clear, "PNG", **settings), "x")
    assert opaque.mode == "RGB"
    assert np.asarray(opaque).min() == 255


def test_sixteen_bits_keep_their_shades() -> None:
    shades = Image.fromarray(np.array([[0, 32768, 65535]], dtype=np.uint16))
    assert np.asarray(open_image(encode(shades), "x"))[0, :, 0].tolist() == [0, 128, 255]


@pytest.mark.parametrize(
    "content", [b"", b"not an image", encode(noise_image(9, 9))[:60]], ids=["none", "text", "cut"]
)
def test_the_error_names_a_file_that_is_no_picture(content: bytes) -> None:
    with pytest.raises(DataError, match="row 7 cannot be read"):
        open_image(content, "row 7")


def test_a_picture_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vlrft.vision.picture_files.MAX_PIXELS", 99)
    with pytest.raises(DataError, match="x cannot be read: it has more than 99 pixels"):
        open_image(encode(noise_image(10, 10)), "x")


def parquet(path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), path)


def arrow(path: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    with pa.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table)


def text(content: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_text(content)

    return write


WRITERS: dict[str, Callable[[Path], None]] = {
    ".parquet": parquet,
    ".arrow": arrow,
    ".jsonl": text("\n".join(map(json.dumps, ROWS)) + "\n\n"),
    ".json": text(json.dumps(ROWS)),
    ".csv": text("id,n\na,1\nb,2\n"),
}


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("layout", ["test{}", "test-00000-of-00001{}", "data/test/0{}"])
def test_tables_of_every_kind_and_place_give_the_same_rows(
    tmp_path: Path, suffix: str, layout: str
) -> None:
    path = tmp_path / layout.format(suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    WRITERS[suffix](path)
    (tmp_path / "train.jsonl").write_text('{"id": "other"}\n')
    rows = [(row["id"], int(row["n"])) for row in open_source(tmp_path).rows("test")]
    assert rows == [("a", 1), ("b", 2)]
    assert [row["id"] for row in open_source(path).rows("whatever")] == ["a", "b"]
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(path, layout.format(suffix))
    zipped = open_source(tmp_path / "all.zip")
    assert [row["id"] for row in zipped.rows("test")] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("test.jsonl", b'{"a": 1}\n{"a": \n', "test.jsonl, line 2: not JSON"),
        ("test.jsonl", b"[1]\n", "test.jsonl, line 1: expected an object, found list"),
        (
            "test.json",
            b'{"a": 1}',
            "test.json: expected a list of objects, or an object with one, found one object",
        ),
        ("test.json", b"[" * 100_000, "test.json: not JSON"),
        ("test.csv", b"\xff\xfe", "test.csv: not UTF-8"),
        ("test.parquet", b"PAR1 nothing", "test.parquet: not a readable parquet file"),
        ("train.jsonl", b"{}\n", "no table of the test split; .* found train.jsonl"),
    ],
)
def test_the_error_names_a_table_that_cannot_be_read(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(open_source(tmp_path).rows("test"))


def test_a_missing_path_is_an_error_and_a_hub_id_is_a_source(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder, and not a hub id"):
        open_source(tmp_path / "nothing" / "here")
    assert open_source("owner/name:main").label == "owner/name"


def test_files_of_a_folder_and_a_zip_are_found_by_name_and_only_there(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "x.txt").write_bytes(b"x")
    (tmp_path / "secret").write_bytes(b"s")
    assert read_file(open_source(folder), "sub/x.txt") == b"x"
    with pytest.raises(DataError, match="leads out of the folder"):
        read_file(open_source(folder), "../secret")
    with pytest.raises(DataError, match=r"cannot read 'sub/y.txt'"):
        read_file(open_source(folder), "sub/y.txt")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("sub/x.txt", b"x")
    assert open_source(tmp_path / "a.zip").names() == ("sub/x.txt",)
    with pytest.raises(DataError, match=r"cannot read 'sub/y.txt'"):
        read_file(open_source(tmp_path / "a.zip"), "sub/y.txt")
    (tmp_path / "bad.zip").write_bytes(b"PK")
    with pytest.raises(DataError, match="not a readable zip"):
        open_source(tmp_path / "bad.zip").names()


def test_image_cells_of_every_form_are_read(tmp_path: Path) -> None:
    content = encode(noise_image(3, 3))
    (tmp_path / "1.png").write_bytes(content)
    source = open_source(tmp_path)
    cells = [content, {"bytes": content, "path": None}, {"bytes": None, "path": "1.png"}, "1.png"]
    assert [parse_picture(cell, source, "row 0").read() for cell in cells] == [content] * 4
    with pytest.raises(DataError, match=r"row 0: no image \(found NoneType\)"):
        parse_picture(None, source, "row 0")


def test_links_of_a_folder_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot in the hub's cache consists of links to files elsewhere."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs/5e1f").write_text('{"id": "a"}\n')
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot/train.jsonl").symlink_to("../blobs/5e1f")
    assert list(open_source(tmp_path / "snapshot").rows("train")) == [{"id": "a"}]
    monkeypatch.chdir(tmp_path / "snapshot")
    for name in ("../blobs/5e1f", str(tmp_path / "blobs/5e1f")):
        with pytest.raises(DataError, match="leads out of the folder"):
            read_file(open_source("."), name)


def test_one_folder_of_a_hub_dataset_is_read_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SimpleRL-Zoo has a folder for each dataset; the hub's loader would join them all."""
    for name in ("easy", "hard"):
        (tmp_path / "owner/zoo" / name).mkdir(parents=True)
        pq.write_table(pa.table({"q": [name]}), tmp_path / "owner/zoo" / name / "train.parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    assert list(hub_rows("owner/zoo", "hard/", "train")) == [{"q": "hard"}]
    with pytest.raises(DataError, match="owner/zoo: cannot load the train split from the hub"):
        list(hub_rows("owner/zoo", "harder/", "train"))
    assert open_source("some/zoo:hard/").label == "some/zoo"


def test_lazy_samples_are_made_on_access() -> None:
    indices: list[int] = []

    def make(index: int) -> Sample:
        indices.append(index)
        return Sample(id=str(index), messages=())

    samples = LazySamples(make, range(6))
    later = samples[1:][::2]
    assert (len(samples), len(later), indices) == (6, 3, [])
    assert [sample.id for sample in later] == ["1", "3", "5"]
    assert later[-2].id == "3"
    with pytest.raises(IndexError):
        later[3]
    assert indices == [1, 3, 5, 3]
