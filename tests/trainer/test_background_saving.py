"""Checkpoints that are written by a thread while training goes on."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from torch import Tensor

from vlrft.config.load import load_config
from vlrft.distributed.interrupts import Interrupted
from vlrft.policy.weight_files import Read, write_tensors
from vlrft.schema.errors import CheckpointError
from vlrft.trainer.callbacks import Callback
from vlrft.trainer.checkpoint import Checkpoints
from vlrft.trainer.checkpoint_files import TrainerState, load_state
from vlrft.trainer.tensor_writer import TensorWriter, shapes_of
from vlrft.trainer.train import train

SECONDS = 60.0  # that a writer in a test waits at most


class HeldWrites:
    """`write_tensors` that begins when it is let go; then it fails, if the test says so."""

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
    state = load_state(path)
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
from vlrft.trainer.callbacks import Callback
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


RUN = """
task: {name: digits, options: {subtasks: [count], train: 60, test: 20}, rewards: {format: 1.0}}
policy:
  build: {hidden_size: 32, layers: 1, heads: 4, kv_heads: 2, intermediate_size: 32, vision_width: 32, vision_layers: 1}
rollout: {group_size: 2, max_tokens: 3}
stages: [{algorithm: sft, steps: 4, prompts_per_step: 2}]
eval: {limit: 1}
save: {every: 1, keep_last: 10, background: true}
device: cpu
"""


class Notes(Callback):
    """The checkpoints that a run reports, each with the step that it had reached."""

    def __init__(self) -> None:
        self.step = 0
        self.reported: list[tuple[int, int]] = []

    def on_step(self, step: int, metrics: Mapping[str, float]) -> None:
        self.step = step

    def on_checkpoint(self, step: int, path: Path) -> None:
        assert (path / "manifest.json").is_file()
        self.reported.append((step, self.step))


def test_a_full_disk_ends_the_run_and_the_checkpoint_before_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.yaml").write_text(RUN)
    notes, files = Notes(), count()

    def write(path: Path, *rest: Any) -> None:
        if next(files) >= 5:  # two for each checkpoint: in the midst of the third
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_tensors(path, *rest)

    monkeypatch.setattr("vlrft.trainer.tensor_writer.write_tensors", write)
    with pytest.raises(CheckpointError, match=r"step_3: cannot be written \(No space left"):
        train(load_config(tmp_path / "run.yaml"), out=tmp_path / "run", callbacks=[notes])
    assert [step for step, _ in notes.reported] == [1, 2]
    root = tmp_path / "run" / "checkpoints"
    assert {path.name for path in root.glob("[!.]*")} == {"step_1", "step_2", "last"}
    assert (root / "last").resolve().name == "step_2"
    monkeypatch.undo()
    result = train(
        load_config(tmp_path / "run.yaml"), out=tmp_path / "run", resume=True, callbacks=[notes]
    )
    assert (result.folder / "checkpoints" / "last").resolve().name == "step_4"
    assert [step for step, _ in notes.reported] == [1, 2, 3, 4]
    assert {path.name for path in root.iterdir()} == {f"step_{k}" for k in (1, 2, 3, 4)} | {"last"}


def test_a_second_signal_does_not_wait_for_a_checkpoint(tmp_path: Path, held: HeldWrites) -> None:
    """The one that is being written is given up, and its folder is cleared by the next run."""
    (tmp_path / "run.yaml").write_text(RUN)

    def interrupt(step: int) -> None:
        held.go.set()  # it is noticed between two tensors
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)

    class Twice(Callback):
        def on_step(self, step: int, metrics: Mapping[str, float]) -> None:
            if step == 2:
                interrupt(step)

    with pytest.raises(Interrupted, match="stopped at once by SIGTERM, after step 2 of 4"):
        train(load_config(tmp_path / "run.yaml"), out=tmp_path / "run", callbacks=[Twice()])
    result = train(load_config(tmp_path / "run.yaml"), out=tmp_path / "run", overwrite=True)
    assert (result.folder / "checkpoints" / "last").resolve().name == "step_4"
