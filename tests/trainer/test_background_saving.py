"""Checkpoints that are written by a thread while training goes on."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from torch import Tensor

from vlrft.policy.weight_files import Read, write_tensors
from vlrft.schema.errors import CheckpointError
from vlrft.trainer.checkpoint import Checkpoints, TrainerState
from vlrft.trainer.tensor_writer import TensorWriter, shapes_of

SECONDS = 60.0  # that a writer in a test waits at most


class HeldWrites:
    """`write_tensors` that begins when it is let go; then it fails, if it was told to."""

    def __init__(self) -> None:
        self.begun, self.go = Event(), Event()
        self.error: OSError | None = None

    def __call__(self, path: Path, shapes: Mapping[str, Tensor], read: Read, *rest: Any) -> None:
        self.begun.set()
        assert self.go.wait(SECONDS)
        if self.error is not None:
            raise self.error
        write_tensors(path, shapes, read, *rest)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldWrites]:
    writes = HeldWrites()
    monkeypatch.setattr("vlrft.trainer.tensor_writer.write_tensors", writes)
    yield writes
    writes.go.set()


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints", keep_last=2, keep_best=0, message=print)


def save(checkpoints: Checkpoints, step: int, weights: Tensor) -> Path:
    """A checkpoint of weights that the model's folder holds, and of a moment."""

    def content(folder: Path, writer: TensorWriter) -> TrainerState:
        stored = {"w": weights}
        writer(folder / "model.safetensors", shapes_of(stored), stored.__getitem__)
        values = {"step": step, "stored": {"weights/w": "w"}}
        return TrainerState(tensors={"moment": weights}, values=values)

    return checkpoints.save(step, content, None, later=True)


def steps(checkpoints: Checkpoints) -> set[str]:
    return {path.name for path in checkpoints.root.glob("[!.]*")}


def test_a_checkpoint_holds_the_step_at_which_it_began(
    checkpoints: Checkpoints, held: HeldWrites
) -> None:
    weights = torch.arange(4.0)
    path = save(checkpoints, 1, weights)
    assert held.begun.wait(SECONDS)
    weights += 10  # training goes on
    assert not checkpoints.ended
    assert steps(checkpoints) == set()
    held.go.set()
    checkpoints.wait()
    assert checkpoints.ended
    assert steps(checkpoints) == {"step_1", "last"}
    state = checkpoints.load_state(path)
    assert torch.equal(state.tensors["weights/w"], torch.arange(4.0))
    assert torch.equal(state.tensors["moment"], torch.arange(4.0))
    assert (
        checkpoints.latest() == path
    )  # its hashes, taken while it was written, are those of its files


def test_the_next_write_waits_for_the_one_before(
    checkpoints: Checkpoints, held: HeldWrites, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(checkpoints, 1, torch.zeros(2))
    waited: list[set[str]] = []
    wait = checkpoints.wait

    def let_go() -> None:
        waited.append(steps(checkpoints))
        held.go.set()
        wait()
        waited.append(steps(checkpoints))

    monkeypatch.setattr(checkpoints, "wait", let_go)
    save(checkpoints, 2, torch.zeros(2))
    assert waited == [set(), {"step_1", "last"}]


def test_an_error_of_the_thread_is_raised_where_it_is_waited_for(
    checkpoints: Checkpoints, held: HeldWrites
) -> None:
    held.error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    held.go.set()
    save(checkpoints, 3, torch.zeros(2))
    with pytest.raises(CheckpointError, match=r"step_3: cannot be written \(No space left"):
        checkpoints.wait()
    checkpoints.wait()  # once
    assert steps(checkpoints) == set()


def test_a_write_that_is_given_up_leaves_the_checkpoint_before(
    checkpoints: Checkpoints, held: HeldWrites
) -> None:
    held.go.set()
    before = save(checkpoints, 1, torch.zeros(2))
    checkpoints.wait()
    held.go.clear()
    held.begun.clear()
    save(checkpoints, 2, torch.zeros(2))
    assert held.begun.wait(SECONDS)
    checkpoints._cancelled.set()
    held.go.set()
    checkpoints.cancel()
    assert checkpoints.latest() == before
    after = save(checkpoints, 3, torch.zeros(2))
    checkpoints.wait()
    assert checkpoints.latest() == after
    assert {path.name for path in checkpoints.root.iterdir()} == {"step_1", "step_3", "last"}


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from tests.trainer.test_background_saving import save
from vlrft.trainer import tensor_writer
from vlrft.trainer.checkpoint import Checkpoints

checkpoints = Checkpoints(Path(sys.argv[1]), keep_last=2, keep_best=0, message=print)
save(checkpoints, 1, torch.zeros(2))
checkpoints.wait()

def write_half(path, *rest):
    path.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)

tensor_writer.write_tensors = write_half
save(checkpoints, 2, torch.zeros(2))
checkpoints.wait()
"""


def test_a_process_that_is_killed_while_it_writes_leaves_the_checkpoint_before(
    checkpoints: Checkpoints,
) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(checkpoints.root)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (checkpoints.root / ".writing_step_2").is_dir()
    assert checkpoints.latest() == checkpoints.root / "step_1"
    save(checkpoints, 2, torch.zeros(2))
    checkpoints.wait()
    assert {path.name for path in checkpoints.root.iterdir()} == {"step_1", "step_2", "last"}
