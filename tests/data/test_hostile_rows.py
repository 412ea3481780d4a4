"""One bad row of each kind among good ones: `data prepare` lists it with its place and its reason, and goes on."""

from __future__ import annotations

import io
import json
import os
import re
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from vlrft.cli.main import main
from vlrft.data import Defect

Write = Callable[[Path], None]


def png(width: int = 32, height: int = 32, shade: int = 0) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), (shade, 9, 9)).save(file, "PNG")
    return file.getvalue()


def row(k: int, **cells: Any) -> dict[str, Any]:
    return {"id": f"r{k}", "image": f"{k}.png", "problem": "How long?", "solution": "5"} | cells


def lines(*rows: Mapping[str, Any] | str) -> bytes:
    return "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows).encode()


def folder(files: Mapping[str, bytes]) -> Write:
    """Writes three pictures and these files."""

    def write(path: Path) -> None:
        path.mkdir()
        for name, content in ({f"{k}.png": png(shade=k) for k in range(3)} | dict(files)).items():
            (path / name).write_bytes(content)

    return write


def second(**cells: Any) -> Write:
    """Three rows, of which the second has these cells."""
    return folder({"train.jsonl": lines(row(0), row(1, **cells), row(2))})


def second_line(text: bytes | str) -> Write:
    text = text if isinstance(text, bytes) else text.encode()
    return folder({"train.jsonl": lines(row(0)) + text + b"\n" + lines(row(2))})


def second_picture(content: bytes) -> Write:
    return folder({"train.jsonl": lines(row(0), row(1), row(2)), "1.png": content})


def table(text: str | bytes) -> Write:
    text = text if isinstance(text, bytes) else text.encode()
    return folder({"train.csv": text})


CSV = "id,image,problem,solution\nr0,0.png,q,5\n{}\nr2,2.png,q,5\n"
TWICE = '{"id": "r1", "image": "1.png", "problem": "q", "solution": "3", "solution": "4"}'


def archive(change: Callable[[bytearray, int], None], method: int) -> Write:
    """A zip whose second picture is changed; `change` gets the file and the place of the picture's data."""

    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", method) as file:
            file.writestr("train.jsonl", lines(row(0), row(1), row(2)))
            for k in range(3):
                file.writestr(f"{k}.png", png(shade=k))
            place = file.getinfo("1.png").header_offset + 30 + len("1.png")
        content = bytearray(path.read_bytes())
        change(content, place)
        path.write_bytes(content)

    return write


def flip(content: bytearray, place: int) -> None:
    content[place + 45] ^= 1


def break_stream(content: bytearray, place: int) -> None:
    content[place : place + 4] = b"\xff" * 4


def break_method(content: bytearray, place: int) -> None:
    header = place - 30 - len("1.png")
    struct.pack_into("<H", content, header + 8, 99)
    entry = content.index(b"1.png", content.index(b"PK\1\2")) - 46
    struct.pack_into("<H", content, entry + 10, 99)


CASES: dict[str, tuple[Write, str, str]] = {  # name -> data, id and detail of the only defect
    "NUL in a path": (second(image="a\0b.png"), "r1", r"cannot read 'a\\x00b.png'"),
    "surrogate in a path": (second(image="x\ud83d.png"), "r1", "surrogates not allowed"),
    "surrogate in a question": (second(problem="x \ud83d y"), "r1", "question, character 2"),
    "surrogate in an id": (second(id="x\ud83d"), "x\\ud83d", "id, character 1"),
    "surrogate in an answer": (second(solution="5\ud83d"), "r1", "gold answer, character 1"),
    "path out of the folder": (second(image="../../etc/passwd"), "r1", "leads out of the folder"),
    "path of a megabyte": (second(image="x" * 1_000_000), "r1", "File name too long"),
    "id of a megabyte": (second(id="i" * 1_000_000), "iiii", "1,000,000 characters, at most"),
    "question of 10 MB": (second(problem="x" * 10_000_000), "r1", "10,000,000 characters, at most"),
    "nested id": (second(id={"a": [1]}, image=None), "{'a'", "no images or image"),
    "answer is NaN": (second(solution=float("nan")), "r1", "gold answer nan"),
    "no image cell": (second(image=1.5), "r1", r"no image \(found float\)"),
    "line is no JSON": (second_line('{"a": '), "train.jsonl, line 2", r"line 1 column 7"),
    "line is a list": (second_line("[1]"), "train.jsonl, line 2", "expected an object, found list"),
    "line is not UTF-8": (second_line(b'{"a": "\xff"}'), "train.jsonl, line 2", "not UTF-8 at byte 7"),
    "JSON nested too deep": (second_line("[" * 100_000), "train.jsonl, line 2", "recursion"),
    "number too long": (second_line('{"a": %s}' % ("1" * 5000)), "train.jsonl, line 2", "4300"),
    "key twice": (second_line(TWICE), "train.jsonl, line 2", "key 'solution' is there twice"),
    "too many cells": (table(CSV.format("r1,1.png,If a, b,5")), "train.csv, line 3", "5 cells for 4"),
    "cell not UTF-8": (
        table(CSV.encode().replace(b"{}", b"r1,1.png,\xff,5")), "train.csv, line 3", "not UTF-8",
    ),
    "EPS": (second_picture(b"%!PS-Adobe-3.0 EPSF-3.0\n"), "r1", "1.png cannot be read.*EPS"),
    "picture cut": (second_picture(png()[:60]), "r1", "1.png cannot be read"),
    "line of pixels": (second_picture(png(1, 10_000)), "r1", r"too long for its width \(1 x 10000"),
    "strip of pixels": (second_picture(png(9000, 40)), "r1", r"too long for its width"),
    "item is a text": (
        folder({"train.json": json.dumps([row(0), "row", row(2)]).encode()}),
        "train.json, item 1", "expected an object, found str",
    ),
    "member with a wrong CRC": (archive(flip, zipfile.ZIP_STORED), "r1", "'1.png' .*Bad CRC-32"),
    "member with a broken stream": (
        archive(break_stream, zipfile.ZIP_DEFLATED), "r1", "'1.png' .*Error -3",
    ),
    "member of unknown compression": (
        archive(break_method, zipfile.ZIP_STORED), "r1", "cannot read '1.png'",
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def prepare(name: str) -> list[dict[str, Any]]:
    """The defects of geoqa's training split; the rows r0 and r2 are prepared."""
    command = ["data", "prepare", "geoqa", "--from", name, "--out", "out", "--split", "train"]
    assert main(command) == 0
    rows = [json.loads(line) for line in Path("out/train.jsonl").read_text().splitlines()]
    assert [r["id"] for r in rows] == ["r0", "r2"]
    return [json.loads(line) for line in Path("out/train.defects.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", CASES)
def test_one_bad_row_is_a_listed_defect_with_its_place(name: str) -> None:
    write, place, detail = CASES[name]
    raw = "raw.zip" if name.startswith("member") else "raw"
    write(Path(raw))
    (defect,) = prepare(raw)
    assert defect["id"].startswith(place)
    assert re.search(detail, defect["detail"]), defect["detail"]
    assert len(defect["id"]) < 600
    assert len(defect["detail"]) < 600


def test_a_member_that_expands_to_more_than_the_limit_is_not_read_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vlrft.data.pictures.MAX_BYTES", 1_000_000)
    reads: list[int] = []
    read = zipfile.ZipExtFile.read

    def counted(file: zipfile.ZipExtFile, size: int | None = -1) -> bytes:
        if file.name == "1.png":
            reads.append(size or 0)
        return read(file, size)

    with zipfile.ZipFile("raw.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("train.jsonl", lines(row(0), row(1), row(2)))
        for k, content in enumerate((png(), bytes(20_000_000), png(shade=2))):
            archive.writestr(f"{k}.png", content)
    monkeypatch.setattr(zipfile.ZipExtFile, "read", counted)
    (defect,) = prepare("raw.zip")
    assert (defect["id"], "more than 1,000,000 bytes" in defect["detail"]) == ("r1", True)
    assert reads == [1_000_001]


def test_a_pipe_in_the_place_of_a_picture_does_not_block() -> None:
    second(image="pipe.png")(Path("raw"))
    os.mkfifo("raw/pipe.png")
    (defect,) = prepare("raw")
    assert "cannot read 'pipe.png' (not a file)" in defect["detail"]


def test_a_table_that_is_damaged_as_a_whole_is_listed_and_the_next_one_read() -> None:
    rows = b"[%s]" % lines(row(0), row(2)).strip().replace(b"\n", b",")
    folder({"train-0.json": b"[{", "train-1.json": rows})(Path("raw"))
    (defect,) = prepare("raw")
    assert defect["id"] == "train-0.json"
    assert "not JSON" in defect["detail"]


@pytest.mark.parametrize(
    "content",
    [b'{"splits": ', b"[" * 100_000, b"[]", b"\xff"],
    ids=["cut", "deep", "list", "bytes"],
)
def test_a_damaged_manifest_is_one_line_with_its_place(
    content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    second()(Path("raw"))
    Path("raw/manifest.json").write_bytes(content)
    command = ["data", "prepare", "geoqa", "--from", "raw", "--out", "out", "--split", "train"]
    assert main(command) == 2
    assert "vlrft: raw/manifest.json: " in capsys.readouterr().err
    Path("out").mkdir(exist_ok=True)
    Path("out/manifest.json").write_bytes(content)
    Path("raw/manifest.json").unlink()
    assert main(command) == 2
    assert "vlrft: out/manifest.json: " in capsys.readouterr().err
    assert Path("out/manifest.json").read_bytes() == content


def test_the_file_of_an_interrupted_call_that_is_damaged_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    second()(Path("raw"))
    Path("out").mkdir()
    Path("out/train.jsonl.part").write_bytes(b'{"id": "r0"}\n\0\0\0\n')
    command = ["data", "prepare", "geoqa", "--from", "raw", "--out", "out", "--split", "train"]
    assert main(command) == 1
    assert "train.jsonl.part: damaged" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0


PACK = """
from dataclasses import dataclass
from vlrft.data import Dataset, Picture, Row
from vlrft.schema import Message, Sample, Task

@dataclass(frozen=True, kw_only=True)
class Options:
    data: str | None = None

def read(source, split, options):
    for k, cells in enumerate(source.rows(split)):
        if cells["kind"] == "reading":
            raise AttributeError("no such thing")
        def picture():
            raise RuntimeError("the disk is gone")
        pictures = (Picture(name="p.bmp", read=picture),) if cells["kind"] == "picture" else ()
        yield Row(id=f"row{k}", question="q", answer=cells["kind"], pictures=pictures)

def sample(row, options):
    if row.answer == "sample":
        raise RecursionError("deep\\nin it")
    message = Message(role="user", content=(row.question,))
    return Sample(id=row.id, messages=(message,), answer=row.answer)

def gold(sample):
    if sample.answer == "gold":
        raise ZeroDivisionError
    return f"<answer>{sample.answer}</answer>"

task = Task(name="own", doc="", options=Options, splits=("train", "test"), rewards={"choice": 1.0},
            load=Dataset(read=read, sample=sample, sources={}), graders={"strict": ("choice",)}, gold=gold)
"""


def own_pack(*kinds: str) -> None:
    Path("own.py").write_text(PACK)
    Path("raw").mkdir()
    Path("raw/train.jsonl").write_bytes(lines(*({"kind": kind} for kind in kinds)))


OWN = ["data", "prepare", "./own.py:task", "--from", "raw", "--out", "out", "--split", "train"]


def test_whatever_a_pack_raises_for_a_row_is_that_row_s_defect() -> None:
    own_pack("fine", "picture", "sample", "gold", "fine")
    assert main(OWN) == 0
    defects = map(json.loads, Path("out/train.defects.jsonl").read_text().splitlines())
    assert {d["id"]: (d["reason"], d["detail"]) for d in defects} == {
        "row1": (
            "image missing or unreadable",
            "'p.bmp' cannot be read (RuntimeError: the disk is gone)",
        ),
        "row2": ("gold answer unreadable", "RecursionError: deep"),
        "row3": ("gold answer unreadable", "ZeroDivisionError: no message"),
    }


def test_a_pack_that_cannot_read_on_says_after_which_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    own_pack("fine", "reading", "fine")
    assert main(OWN) == 1
    message = "raw: reading the train split failed after row0 (AttributeError: no such thing)"
    assert message in capsys.readouterr().err


def test_check_lists_the_rows_that_training_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    second_line('{"a": ')(Path("raw"))
    assert main(["check", "geoqa", "options.data=raw", "--split", "train"]) == 1
    error = capsys.readouterr().err
    assert "raw: 1 of 3 rows of the train split cannot be used" in error
    assert "\n  train.jsonl, line 2 (unreadable row: not JSON" in error
    second_picture(png(1, 10_000))(Path("pictures"))
    assert main(["check", "geoqa", "options.data=pictures", "--split", "train"]) == 1
    output = capsys.readouterr()
    assert "train: 2 of 3 gold answers earn full marks" in output.out
    assert "  sample r1: 1.png cannot be read: it is too long for its width" in output.err


def test_training_names_the_sample_whose_data_are_bad(capsys: pytest.CaptureFixture[str]) -> None:
    own_pack("fine", "picture")
    Path("raw/test.jsonl").write_bytes(lines({"kind": "fine"}))
    Path("c.yaml").write_text(
        "task: {name: ./own.py:task, options: {data: raw}}\n"
        "policy: {build: {hidden_size: 32, layers: 1, vision_width: 32, vision_layers: 1, intermediate_size: 32}}\n"
        "rollout: {max_tokens: 2, group_size: 2}\n"
        "stages: [{algorithm: gpg, steps: 1, prompts_per_step: 2}]\n"
    )
    assert main(["train", "c.yaml"]) == 1
    message = "the first is row1 (image missing or unreadable: 'p.bmp' cannot be read (RuntimeError: the disk"
    assert message in capsys.readouterr().err


def test_warnings_of_the_decoders_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    file = io.BytesIO()
    Image.new("RGB", (32, 32)).save(file, "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\x05\0")
    folder({"train.jsonl": lines(row(0), row(2)), "0.png": file.getvalue()})(Path("raw"))
    assert prepare("raw") == []
    assert "Warning" not in capsys.readouterr().err


def test_a_defect_s_texts_are_one_line_that_any_file_and_terminal_takes() -> None:
    defect = Defect(id="a\nb\ud800", reason="x", detail="\x1b[31m" + "é" * 1000)
    assert str(defect) == f"a\\nb\\ud800 (x: \\x1b[31m{'é' * 495} … (1,005 characters))"


def test_a_row_without_a_gold_answer_names_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    cells = [row(k, solution="5" if k else None) for k in range(2)]
    folder({"train.jsonl": lines(*cells)})(Path("raw"))
    command = ["data", "prepare", "counting", "--from", "raw", "--out", "out", "--split", "train"]
    assert main(command) == 0
    (defect,) = map(json.loads, Path("out/train.defects.jsonl").read_text().splitlines())
    assert defect["detail"] == "no solution or ground_truth or answer"
