"""A pack with data, from raw rows to a prepared folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.data.signs_pack import BAD, PACK, TASK, defects, enter_folder, write_raw
from vlrft.cli.main import main
from vlrft.config.load import task_config
from vlrft.data.claim import lock_folder
from vlrft.rollout.bad_rows import check_gold_answers
from vlrft.rollout.task import load_task
from vlrft.schema import DataError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter_folder(tmp_path, monkeypatch)


class Killed(BaseException):
    """Simulates a kill: no code catches it."""


@pytest.mark.parametrize("folder", ["null", "123", "a: b", "[x]"])
def test_the_folder_of_raw_data_is_a_text_whatever_its_name_looks_like(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_raw(tmp_path / folder, **BAD)
    prepare = ["data", "prepare", TASK, "--from", folder, "--out", "ready", "--split", "test"]
    assert main(prepare) == 0
    assert "test: 1 row" in capsys.readouterr().out


def test_prepare_lists_every_row_that_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_raw(tmp_path / "raw", **BAD)
    assert main(["data", "prepare", TASK, "--from", "raw", "--out", "ready"]) == 0
    output = capsys.readouterr()
    assert "test: 1 row" in output.out
    assert "train: not prepared: raw: no table of the train split" in output.err
    assert defects("ready") == {
        "test/1": "more than one image",
        "test/2": "image missing or unreadable",
        "test/3": "empty question",
        "test/4": "gold answer unreadable",
        "test/5": "no image",
    }
    manifest = json.loads(Path("ready/manifest.json").read_text())
    assert manifest["splits"]["test"]["rows"] == 1
    assert sum(manifest["splits"]["test"]["defects"].values()) == 5
    assert len(list(Path("ready/images").iterdir())) == 1
    assert main(["data", "prepare", TASK, "--from", "raw", "--out", "ready"]) == 0
    assert "already prepared" in capsys.readouterr().out
    Path("ready/test.jsonl.part").write_text("the rest of an interrupted run\n")
    again = ["data", "prepare", TASK, "--from", "raw", "--out", "ready", "--split", "test"]
    assert main([*again, "--overwrite"]) == 0
    assert "test: 1 row" in capsys.readouterr().out


def test_a_split_that_is_not_on_the_hub_is_named_beside_the_one_that_cannot_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pack = (tmp_path / "signs.py").read_text()
    command = ["data", "prepare", TASK, "--out", "ready"]
    (tmp_path / "signs.py").write_text(pack.replace("some/signs", "gone"))
    assert main(command) != 0
    assert "gone" in capsys.readouterr().err
    write_raw(tmp_path / "raw")
    (tmp_path / "raw" / "test.jsonl").rename(tmp_path / "raw" / "train.jsonl")
    (tmp_path / "other.py").write_text(pack.replace("some/signs", str(tmp_path / "raw")))
    assert main(["data", "prepare", "./other.py:task", "--out", "ready"]) == 0
    output = capsys.readouterr()
    assert "train: 6 rows" in output.out
    assert "test: not prepared: the test split is not on the hub; give its place with" in output.err


def test_raw_data_are_never_replaced_by_prepared_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_raw(tmp_path / "raw")
    Path("raw/test.jsonl").write_text("my rows\n")
    before = {p: p.read_bytes() for p in Path("raw").rglob("*") if p.is_file()}
    command = ["data", "prepare", TASK, "--from", "raw", "--out", "raw", "--split", "test"]
    for flags in ([], ["--overwrite"]):
        assert main([*command, *flags]) == 2
        assert (
            "raw/test.jsonl exists, and manifest.json does not list it" in capsys.readouterr().err
        )
    assert {p: p.read_bytes() for p in Path("raw").rglob("*") if p.is_file()} == before


def test_a_prepared_split_that_was_edited_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_raw(tmp_path / "raw")
    command = ["data", "prepare", TASK, "--from", "raw", "--out", "ready", "--split", "test"]
    assert main(command) == 0
    Path("ready/test.jsonl").write_text("edited\n")
    assert main(command) == 2
    assert "ready/test.jsonl was changed after it was prepared" in capsys.readouterr().err
    assert Path("ready/test.jsonl").read_text() == "edited\n"


def test_two_calls_do_not_prepare_one_folder_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_raw(tmp_path / "raw")
    command = ["data", "prepare", TASK, "--from", "raw", "--out", "ready", "--split", "test"]
    with lock_folder(Path("ready")):
        assert main(command) == 2
    assert "ready is being written by process" in capsys.readouterr().err
    assert main(command) == 0
    assert not list(Path("ready").glob("*lock"))


@pytest.mark.parametrize("stop_at", [1, 2, 3])
def test_a_call_killed_at_its_last_changes_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int
) -> None:
    write_raw(tmp_path / "raw")
    command = ["data", "prepare", TASK, "--from", "raw", "--out", "ready", "--split", "test"]
    calls = 0

    def stopping(real: Callable[..., object]) -> Callable[..., object]:
        def call(source: Path, target: Path) -> object:
            nonlocal calls
            calls += "test" in Path(target).name or Path(target).name == "manifest.json"
            if calls == stop_at + 1:  # the first writes the origin of the rows
                raise Killed
            return real(source, target)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stopping(os.replace))
        patch.setattr(Path, "replace", stopping(Path.replace))
        with pytest.raises(Killed):
            main(command)
    assert main(command) == 0
    assert len(load_task(task_config(TASK, ["options.data=ready"]), "test").samples) == 6


def test_the_beginning_of_other_rows_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_raw(tmp_path / "raw")
    write_raw(tmp_path / "other")
    command = ["data", "prepare", TASK, "--out", "ready", "--split", "test", "--from"]

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(Killed):
            main([*command, "raw"])
    assert Path("ready/test.jsonl.part").exists()
    assert main([*command, "other"]) == 2
    assert "has begun this split with other data or options" in capsys.readouterr().err
    assert main([*command, "raw"]) == 0
    assert {p.name for p in Path("ready").iterdir()} == {
        "images", "manifest.json", "test.jsonl", "test.defects.jsonl"
    }  # fmt: skip


def test_prepared_samples_equal_the_raw_ones(tmp_path: Path) -> None:
    write_raw(tmp_path / "raw", row1={"answer": "twice"})
    assert (
        main(["data", "prepare", TASK, "--from", "raw", "--out", "ready", "--split", "test"]) == 0
    )
    one, other = (
        load_task(task_config(TASK, [f"options.data={where}"]), "test").samples
        for where in ("raw", "ready")
    )
    assert len(one) == len(other) == 5
    assert list(one) == list(other)
    assert one[2].images[0].size == (11, 8)
    assert [s.id for s in one[1:3]] == ["test/2", "test/3"]


def test_raw_rows_that_cannot_be_used_stop_unless_the_set_leaves_them_out_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_raw(tmp_path / "raw", row1={"answer": "twice"})
    load_task(task_config(TASK, ["options.data=raw"]), "test")
    assert "raw: test: 1 row left out: more than one image" in capsys.readouterr().err
    write_raw(tmp_path / "worse", row1={"answer": "twice"}, row5={"image": None})
    with pytest.raises(DataError, match=r"1 of 6 rows .* the first is test/5 .*no image.* prepare"):
        load_task(task_config(TASK, ["options.data=worse"]), "test")


def test_a_prepared_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    write_raw(tmp_path / "raw")
    assert (
        main(["data", "prepare", TASK, "--from", "raw", "--out", "ready", "--split", "test"]) == 0
    )
    rows = Path("ready/test.jsonl")
    rows.write_text(rows.read_text().replace("stop", "go"))
    with pytest.raises(DataError, match=r"not the file that manifest.json describes"):
        load_task(task_config(TASK, ["options.data=ready"]), "test")
    with pytest.raises(DataError, match="train split is not prepared; prepared are test"):
        load_task(task_config(TASK, ["options.data=ready"]), "train")


def test_unreadable_gold_answers_are_reported_before_a_run(tmp_path: Path) -> None:
    write_raw(tmp_path / "raw", row3={"answer": ""})
    loaded = load_task(task_config(TASK, ["options.data=raw"]), "test")
    with pytest.raises(
        DataError, match=r"signs: 1 of 6 gold answers cannot be read.*test/3.*prepare"
    ):
        check_gold_answers(loaded)
    command = ["eval", "--model", "none/such", "--task", TASK, "options.data=raw"]
    assert main(command) == 1
    write_raw(tmp_path / "good")
    check_gold_answers(load_task(task_config(TASK, ["options.data=good"]), "test"))


def test_show_prints_counts_and_samples_and_draws_a_sheet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_raw(tmp_path / "raw")
    command = ["data", "show", TASK, "--from", "raw", "--split", "test", "--html", "sheet.html"]
    assert main(command) == 0
    output = capsys.readouterr().out
    assert "test: 6 samples" in output
    assert "kind: a 3, b 3" in output
    assert "width: 8 to 13" in output
    assert output.count("answer: stop") == 6
    page = Path("sheet.html").read_text()
    assert page.count("data:image/png") == 6
    assert main(command) == 2


def test_prepare_and_check_note_rows_that_spell_a_control_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.cli.commands.check.find_spec", lambda name: None)  # no policy
    write_raw(tmp_path / "raw", row2={"question": "Stop?<|im_end|>\n<|im_start|>system"})
    assert (
        main(["data", "prepare", TASK, "--from", "raw", "--out", "ready", "--split", "test"]) == 0
    )
    line = "  note: 1 row spells a control token of chat models, the first test/2 (<|im_end|>)"
    assert line in capsys.readouterr().out
    check = ["check", TASK, "--split", "test", "options.data=ready"]
    assert main(check) == 0
    assert line in capsys.readouterr().out
    assert main([*check, "--limit", "2"]) == 0
    assert "note:" not in capsys.readouterr().out


def test_a_question_with_the_mark_of_an_image_is_a_defect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marked = PACK.replace("(IMAGE, row.question)", "(IMAGE, *split_at_images(row.question))")
    (tmp_path / "signs.py").write_text("from vlrft.data import split_at_images\n" + marked)
    write_raw(tmp_path / "raw", row3={"question": "Which <image> is it?"})
    assert (
        main(["data", "prepare", TASK, "--from", "raw", "--out", "ready", "--split", "test"]) == 0
    )
    assert defects("ready") == {"test/3": "image places"}
    assert main(["check", TASK, "--split", "test", "options.data=raw"]) == 1
    assert "test/3: 2 places of images (<image>) in its messages, but 1 images" in (
        capsys.readouterr().err
    )
    raw = load_task(task_config(TASK, ["options.data=raw"]), "test")
    with pytest.raises(DataError, match="test/3: 2 places of images"):
        check_gold_answers(raw)


def test_a_prepared_split_is_not_taken_for_one_of_other_data_options_or_tasks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_raw(tmp_path / "raw", **BAD)
    write_raw(tmp_path / "other", **BAD)
    prepare = ["data", "prepare", TASK, "--out", "ready", "--split", "test", "--from"]
    assert main([*prepare, "raw"]) == 0
    assert main([*prepare, "raw"]) == 0
    assert "already prepared" in capsys.readouterr().out
    assert main([*prepare, "other"]) == 2
    assert "was prepared from other data or with other options" in capsys.readouterr().err
    assert main([*prepare, "other", "--overwrite"]) == 0
    counting = ["data", "prepare", "counting", "--out", "ready", "--split", "test", "--from", "raw"]
    assert main(counting) == 2
    assert "contains the data of" in capsys.readouterr().err
