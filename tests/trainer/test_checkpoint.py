"""Checkpoints: saving, keeping, damage and interruptions."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from vlrft.schema.errors import CheckpointError, StoredFileError
from vlrft.trainer.checkpoint import Checkpoints
from vlrft.trainer.checkpoint_files import TrainerState, load_state
from vlrft.trainer.tensor_writer import TensorWriter


@pytest.fixture
def messages() -> list[str]:
    return []


@pytest.fixture
def checkpoints(tmp_path: Path, messages: list[str]) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints", keep_last=2, keep_best=1, message=messages.append)


def save(
    checkpoints: Checkpoints, step: int, score: float | None = None, *, later: bool = False
) -> Path:
    def content(path: Path, writer: TensorWriter) -> TrainerState:
        (path / "model.bin").write_bytes(b"m" * step)
        return TrainerState(tensors={"a/b": torch.full((3,), float(step))}, values={"step": step})

    return checkpoints.save(step, content, score, later=later)


def names(checkpoints: Checkpoints) -> set[str]:
    return {p.name for p in checkpoints.root.iterdir()}


def test_a_saved_checkpoint_is_loaded(checkpoints: Checkpoints) -> None:
    path = save(checkpoints, 4)
    assert path == checkpoints.latest() == (checkpoints.root / "last").resolve()
    state = load_state(path)
    assert torch.equal(state.tensors["a/b"], torch.full((3,), 4.0))
    assert state.values == {"step": 4}
    files = json.loads((path / "manifest.json").read_text())["files"]
    assert set(files) == {"model.bin", "trainer/state.json", "trainer/state.safetensors"}


def test_without_a_checkpoint_there_is_no_latest(checkpoints: Checkpoints) -> None:
    assert checkpoints.latest() is None


def test_the_newest_and_the_best_are_kept(checkpoints: Checkpoints) -> None:
    for step, score in enumerate([0.1, 0.9, 0.3, None, 0.2], start=1):
        save(checkpoints, step, score)
    assert names(checkpoints) == {"step_2", "step_4", "step_5", "last"}


def test_of_checkpoints_with_one_score_the_nearest_to_its_evaluation_is_kept(
    checkpoints: Checkpoints,
) -> None:
    """Saved every 10 steps, evaluated every 40: later checkpoints have the score of step 40, and were not evaluated."""
    for step in range(40, 120, 10):
        save(checkpoints, step, 0.9 if step < 80 else 0.4)
    assert names(checkpoints) == {"step_40", "step_100", "step_110", "last"}


def test_a_writer_that_is_killed_leaves_the_checkpoint_before(checkpoints: Checkpoints) -> None:
    before = save(checkpoints, 1)

    def write_half(path: Path, writer: TensorWriter) -> TrainerState:
        (path / "model.bin").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(2, write_half, None)
    assert checkpoints.latest() == before
    assert ".writing_step_2" in names(checkpoints)
    save(checkpoints, 3)
    assert names(checkpoints) == {"step_1", "step_3", "last"}


def truncate(path: Path) -> None:
    (path / "model.bin").write_bytes(b"m")


def garble_manifest(path: Path) -> None:
    (path / "manifest.json").write_text("[]")


def lose_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def lose_file(path: Path) -> None:
    (path / "trainer" / "state.json").unlink()


@pytest.mark.parametrize("damage", [truncate, lose_manifest, garble_manifest, lose_file])
def test_a_damaged_checkpoint_is_reported_and_the_one_before_is_used(
    checkpoints: Checkpoints, messages: list[str], damage: Callable[[Path], None]
) -> None:
    before = save(checkpoints, 7)
    damage(save(checkpoints, 8))
    assert checkpoints.latest() == before
    assert len(messages) == 1
    assert "step_8 is damaged" in messages[0]
    assert save(checkpoints, 9) == checkpoints.latest()


def test_an_error_says_what_to_do_when_all_checkpoints_are_damaged(
    checkpoints: Checkpoints,
) -> None:
    truncate(save(checkpoints, 3))
    with pytest.raises(
        CheckpointError, match="all checkpoints are damaged; start again with --overwrite"
    ):
        checkpoints.latest()


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    checkpoints = Checkpoints(tmp_path / "file" / "x", keep_last=1, keep_best=0, message=print)
    with pytest.raises(CheckpointError, match=r"file/x/step_1: cannot be written"):
        save(checkpoints, 1)


def test_a_step_that_is_saved_again_is_replaced(checkpoints: Checkpoints) -> None:
    save(checkpoints, 2, 0.1)
    path = save(checkpoints, 2, 0.5)
    assert json.loads((path / "manifest.json").read_text())["score"] == 0.5


def test_a_crash_at_any_rename_or_delete_leaves_an_intact_checkpoint(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is stopped before each change of the folder in turn; then the run continues."""
    calls = 0
    stop_at: int | None = None

    def interrupt(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **settings: object) -> object:
            nonlocal calls
            calls += 1
            if calls == stop_at:
                raise KeyboardInterrupt
            return real(*args, **settings)

        return call

    for place, name in (
        (Path, "rename"),
        (os, "replace"),
        (Path, "symlink_to"),
        (Path, "unlink"),
        (shutil, "rmtree"),
    ):
        monkeypatch.setattr(place, name, interrupt(getattr(place, name)))
    save(checkpoints, 1)
    save(checkpoints, 2)
    for number in range(1, 20):
        calls, stop_at = 0, number
        try:
            save(checkpoints, 2)  # replaces itself, the hardest case
        except KeyboardInterrupt:
            stop_at = None
            assert checkpoints.latest() in (
                checkpoints.root / "step_2",
                checkpoints.root / "step_1",
            )
            assert save(checkpoints, 2) == checkpoints.latest()
            assert names(checkpoints) == {"step_1", "step_2", "last"}
        else:
            assert number > 4
            break


def test_a_full_disk_is_a_one_line_error(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = save(checkpoints, 1)
    monkeypatch.setattr("vlrft.trainer.tensor_writer.write_tensors", full)
    with pytest.raises(CheckpointError, match=r"step_2: cannot be written .*No space left"):
        save(checkpoints, 2)
    assert checkpoints.latest() == before


def test_a_run_resumed_from_an_earlier_step_deletes_the_damaged_later_checkpoint(
    tmp_path: Path,
) -> None:
    checkpoints = Checkpoints(tmp_path, keep_last=1, keep_best=1, message=lambda text: None)
    save(checkpoints, 4, 0.9)
    truncate(save(checkpoints, 8, 0.1))
    assert checkpoints.latest() == tmp_path / "step_4"
    assert save(checkpoints, 6, 0.5) == checkpoints.latest()
    assert names(checkpoints) == {"step_4", "step_6", "last"}


def test_other_folders_are_left_alone(checkpoints: Checkpoints) -> None:
    (checkpoints.root / "step_final").mkdir(parents=True)
    assert checkpoints.latest() is None
    path = save(checkpoints, 1)
    assert checkpoints.latest() == path
    assert names(checkpoints) == {"step_1", "step_final", "last"}


def test_a_score_that_is_nan_is_not_stored(checkpoints: Checkpoints) -> None:
    path = save(checkpoints, 1, float("nan"))
    assert json.loads((path / "manifest.json").read_text())["score"] is None


def test_files_of_others_in_a_checkpoint_are_kept_when_it_is_pruned_or_replaced(
    checkpoints: Checkpoints, messages: list[str]
) -> None:
    (save(checkpoints, 1) / "q4.gguf").write_text("converted")
    save(checkpoints, 2)
    save(checkpoints, 3)
    assert names(checkpoints) == {"step_1.kept", "step_2", "step_3", "last"}
    (checkpoints.root / "step_3" / "trainer" / "mine").write_text("notes")
    save(checkpoints, 3)
    assert names(checkpoints) == {"step_1.kept", "step_2", "step_3", "step_3.kept", "last"}
    kept = [p.relative_to(checkpoints.root) for p in checkpoints.root.glob("*.kept/**/*")]
    assert {str(p) for p in kept} == {
        "step_1.kept/q4.gguf", "step_3.kept/trainer", "step_3.kept/trainer/mine"
    }  # fmt: skip
    assert len(messages) == 2
    assert "files that no run writes stay in" in messages[0]


def test_a_checkpoint_that_was_moved_behind_a_link_is_pruned_as_a_link(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    path = save(checkpoints, 1)
    path.rename(tmp_path / "archive")
    path.symlink_to(tmp_path / "archive")
    save(checkpoints, 2)
    save(checkpoints, 3)
    assert names(checkpoints) == {"step_2", "step_3", "last"}
    assert (tmp_path / "archive" / "manifest.json").exists()


def test_drafts_of_others_are_left_alone(checkpoints: Checkpoints) -> None:
    (checkpoints.root / ".writing_thesis").mkdir(parents=True)
    (checkpoints.root / ".writing_notes").write_text("words")
    save(checkpoints, 1)
    assert {".writing_thesis", ".writing_notes"} <= names(checkpoints)


def test_a_last_that_is_no_link_is_an_error_that_says_so(checkpoints: Checkpoints) -> None:
    path = save(checkpoints, 1)
    (checkpoints.root / "last").unlink()
    shutil.copytree(path, checkpoints.root / "last")
    with pytest.raises(StoredFileError, match="last is not the link that vlrft makes; move it"):
        checkpoints.point_last(path)
