from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from vlrft.schema.errors import CheckpointError
from vlrft.trainer.checkpoint import Checkpoints, TrainerState


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def kept(tmp_path: Path, said: list[str]) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints", keep_last=2, keep_best=1, message=said.append)


def save(kept: Checkpoints, step: int, score: float | None = None) -> Path:
    def write(path: Path) -> None:
        (path / "model.bin").write_bytes(b"m" * step)

    state = TrainerState(tensors={"a/b": torch.full((3,), float(step))}, values={"step": step})
    return kept.save(step, write, state, score)


def names(kept: Checkpoints) -> set[str]:
    return {p.name for p in kept.root.iterdir()}


def test_what_is_saved_comes_back(kept: Checkpoints) -> None:
    path = save(kept, 4)
    assert path == kept.latest() == (kept.root / "last").resolve()
    state = kept.load_state(path)
    assert torch.equal(state.tensors["a/b"], torch.full((3,), 4.0))
    assert state.values == {"step": 4}
    files = json.loads((path / "manifest.json").read_text())["files"]
    assert set(files) == {"model.bin", "trainer/state.json", "trainer/state.safetensors"}


def test_nothing_saved_is_none(kept: Checkpoints) -> None:
    assert kept.latest() is None


def test_the_newest_and_the_best_are_kept(kept: Checkpoints) -> None:
    for step, score in enumerate([0.1, 0.9, 0.3, None, 0.2], start=1):
        save(kept, step, score)
    assert names(kept) == {"step_2", "step_4", "step_5", "last"}


def test_a_writer_that_dies_leaves_the_checkpoint_before(kept: Checkpoints) -> None:
    before = save(kept, 1)

    def dies(path: Path) -> None:
        (path / "model.bin").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept.save(2, dies, TrainerState(tensors={}, values={}), None)
    assert kept.latest() == before
    assert ".writing_step_2" in names(kept)
    save(kept, 3)
    assert names(kept) == {"step_1", "step_3", "last"}


def truncate(path: Path) -> None:
    (path / "model.bin").write_bytes(b"m")


def garble_manifest(path: Path) -> None:
    (path / "manifest.json").write_text("[]")


def lose_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def lose_file(path: Path) -> None:
    (path / "trainer" / "state.json").unlink()


@pytest.mark.parametrize("damage", [truncate, lose_manifest, garble_manifest, lose_file])
def test_a_damaged_checkpoint_is_told_and_the_one_before_used(
    kept: Checkpoints, said: list[str], damage: Callable[[Path], None]
) -> None:
    before = save(kept, 7)
    damage(save(kept, 8))
    assert kept.latest() == before
    assert len(said) == 1
    assert "step_8 is damaged" in said[0]
    assert save(kept, 9) == kept.latest()


def test_all_damaged_is_an_error_that_says_what_to_do(kept: Checkpoints) -> None:
    truncate(save(kept, 3))
    with pytest.raises(
        CheckpointError, match="no checkpoint is whole; start again with --overwrite"
    ):
        kept.latest()


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = Checkpoints(tmp_path / "file" / "x", keep_last=1, keep_best=0, message=print)
    with pytest.raises(CheckpointError, match=r"file/x/step_1: cannot be written"):
        save(kept, 1)


def test_a_step_saved_again_replaces_itself(kept: Checkpoints) -> None:
    save(kept, 2, 0.1)
    path = save(kept, 2, 0.5)
    assert json.loads((path / "manifest.json").read_text())["score"] == 0.5


def test_a_crash_at_any_rename_or_delete_leaves_a_whole_checkpoint(
    kept: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is stopped before each change of the folder in turn; then the run goes on."""
    calls = 0
    stop_at: int | None = None

    def stopping(real: Callable[..., object]) -> Callable[..., object]:
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
        (shutil, "rmtree"),
    ):
        monkeypatch.setattr(place, name, stopping(getattr(place, name)))
    save(kept, 1)
    save(kept, 2)
    for number in range(1, 20):
        calls, stop_at = 0, number
        try:
            save(kept, 2)  # replaces itself, the hardest case
        except KeyboardInterrupt:
            stop_at = None
            assert kept.latest() in (kept.root / "step_2", kept.root / "step_1")
            assert save(kept, 2) == kept.latest()
            assert names(kept) == {"step_1", "step_2", "last"}
        else:
            assert number > 4
            break


def test_a_disk_that_is_full_is_told_in_a_line(
    kept: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    before = save(kept, 1)
    monkeypatch.setattr("vlrft.trainer.checkpoint.save_file", full)
    with pytest.raises(CheckpointError, match=r"step_2: cannot be written .*No space left"):
        save(kept, 2)
    assert kept.latest() == before


def test_going_on_from_an_earlier_step_drops_the_damaged_later_one(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path, keep_last=1, keep_best=1, message=lambda text: None)
    save(kept, 4, 0.9)
    truncate(save(kept, 8, 0.1))
    assert kept.latest() == tmp_path / "step_4"
    assert save(kept, 6, 0.5) == kept.latest()
    assert names(kept) == {"step_4", "step_6", "last"}


def test_folders_of_others_are_left_alone(kept: Checkpoints) -> None:
    (kept.root / "step_final").mkdir(parents=True)
    assert kept.latest() is None
    path = save(kept, 1)
    assert kept.latest() == path
    assert names(kept) == {"step_1", "step_final", "last"}


def test_a_score_that_is_not_a_number_is_no_score(kept: Checkpoints) -> None:
    path = save(kept, 1, float("nan"))
    assert json.loads((path / "manifest.json").read_text())["score"] is None
