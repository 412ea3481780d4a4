"""Runs that a signal or a callback stops: the state is saved, and a resumed run equals one that was not stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.distributed.interrupts import Interrupted
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.reporting.run_result import RunResult, read_result
from vlrft.schema.errors import ConfigError
from vlrft.trainer.callbacks import Callback, Callbacks, StopTraining
from vlrft.trainer.train import train

TINY = """
task: {name: digits, options: {subtasks: [count], train: 60, test: 20}, rewards: {format: 1.0}}
policy:
  build: {hidden_size: 32, layers: 1, heads: 4, kv_heads: 2, intermediate_size: 32, vision_width: 32, vision_layers: 1}
rollout: {group_size: 2, max_tokens: 6}
update: {lr: 1.0e-3}
stages:
  - {algorithm: sft, steps: 2, prompts_per_step: 4}
  - {steps: 2, prompts_per_step: 2}
eval: {limit: 2}
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    path = tmp_path_factory.mktemp("config") / "tiny.yaml"
    path.write_text(TINY)
    return load_config(path)


class Recorder(Callback):
    """Keeps what it is called with; `act` is done at its step."""

    def __init__(self, act: Callable[[], object] = int, at: int = 0) -> None:
        self.events: list[tuple[str, int]] = []
        self.act, self.at = act, at
        self.result: RunResult | None = None

    def on_step(self, step: int, metrics: Mapping[str, float]) -> None:
        assert metrics["loss"] == metrics["loss"]
        self.events.append(("step", step))
        if step == self.at:
            self.act()

    def on_evaluation(self, step: int, scores: Mapping[str, float]) -> None:
        assert set(scores) == {"count"}
        self.events.append(("evaluation", step))

    def on_checkpoint(self, step: int, path: Path) -> None:
        assert path.name == f"step_{step}"
        self.events.append(("checkpoint", step))

    def on_end(self, result: RunResult) -> None:
        self.result = result


@pytest.fixture(scope="module")
def observed(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """A callback that has seen a whole run."""
    recorder = Recorder()
    train(config, out=tmp_path_factory.mktemp("whole") / "run", callbacks=[recorder])
    return recorder


@pytest.fixture(scope="module")
def whole(observed: Recorder) -> Path:
    assert observed.result is not None
    return observed.result.folder


def rows(path: Path) -> list[dict[str, Any]]:
    unstable = ("time/", "speed/", "memory/")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith(unstable)} for row in lines]


def assert_same(one: Path, other: Path) -> None:
    for name in ("metrics.jsonl", "rollouts.jsonl", "evals.jsonl"):
        assert rows(one / name) == rows(other / name), name
    a, b = (load_file(run / "checkpoints" / "last" / "model.safetensors") for run in (one, other))
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_a_first_signal_saves_the_step_and_the_resumed_run_is_bit_identical(
    config: Config, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "my run"
    send = Recorder(lambda: os.kill(os.getpid(), signal.SIGTERM), at=1)
    with pytest.raises(Interrupted) as stop:
        train(config, out=out, callbacks=[send])
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert stop.value.exit_code == 143
    assert f"saved {out}/checkpoints/step_{send.at}" in str(stop.value)
    assert f"vlrft train '{out}/config.yaml' --out '{out}' --resume" in str(stop.value)
    assert send.events[-1] == ("checkpoint", send.at)
    assert send.result is None
    train(load_config(out / "config.yaml"), out=out, resume=True)
    assert_same(whole, out)
    assert "stopping after this step" in capsys.readouterr().err


@pytest.mark.usefixtures("default_signals")
def test_a_second_signal_stops_at_once_and_names_the_last_checkpoint(
    config: Config, tmp_path: Path
) -> None:
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("not stopped at once")

    with pytest.raises(Interrupted, match="stopped at once by SIGINT, after step 3 of 4") as stop:
        train(config, out=tmp_path / "late", callbacks=[Recorder(twice, at=3)])
    assert "last checkpoint:" in str(stop.value)
    assert "step_2; 1 step after it must be done again; continue with" in str(stop.value)
    with pytest.raises(Interrupted, match="no checkpoint was written"):
        train(config, out=tmp_path / "early", callbacks=[Recorder(twice, at=1)])


def test_callbacks_see_every_event_and_the_result(observed: Recorder, whole: Path) -> None:
    result = observed.result
    assert result is not None
    assert observed.events == [
        ("evaluation", 0),
        ("step", 1),
        ("step", 2),
        ("evaluation", 2),
        ("checkpoint", 2),
        ("step", 3),
        ("step", 4),
        ("evaluation", 4),
        ("checkpoint", 4),
    ]
    assert result.checkpoint == whole / "checkpoints" / "step_4"
    assert [row["step"] for row in result.history] == [1, 2, 3, 4]
    assert result.metrics == {"count": result.evaluations[-1]["scores"]["count"]["score"]}
    assert (result.steps, result.stopped) == (4, None)
    assert result.report.is_file()
    assert "history" not in repr(result)


def test_the_end_of_a_run_is_called_after_the_ranks_have_left_each_other(
    config: Config, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload may take longer than `ranks.heartbeat_timeout`, and no other rank waits for it."""
    events: list[str] = []

    @contextmanager
    def session(config: Config) -> Iterator[Ranks]:
        yield ALONE
        events.append("left")

    class Upload(Callback):
        def on_end(self, result: RunResult) -> None:
            events.append(f"{result.steps} steps")

    monkeypatch.setattr("vlrft.trainer.train.rank_session", session)
    shutil.copytree(whole, tmp_path / "run", symlinks=True)
    train(config, out=tmp_path / "run", resume=True, callbacks=[Upload()])
    assert events == ["left", "4 steps"]


def test_a_callback_stops_the_run_with_a_checkpoint_and_a_report(
    config: Config, whole: Path, tmp_path: Path
) -> None:
    def stop() -> None:
        raise StopTraining("good enough")

    recorder = Recorder(stop, at=3)
    result = train(config, out=tmp_path / "run", callbacks=[recorder])
    assert (result.stopped, result.steps) == ("good enough", 3)
    assert result.checkpoint is not None
    assert result.checkpoint.name == "step_3"
    assert result.report.is_file()
    assert recorder.result == result
    train(config, out=tmp_path / "run", resume=True)
    assert_same(whole, tmp_path / "run")


def test_a_callback_that_raises_ends_the_run_with_its_own_traceback_after_a_checkpoint(
    config: Config, tmp_path: Path
) -> None:
    def fail() -> None:
        raise KeyError("my own fault")

    with pytest.raises(KeyError, match="my own fault") as error:
        train(config, out=tmp_path / "run", callbacks=[Recorder(fail, at=1)])
    assert error.traceback[-1].name == "fail"
    assert (tmp_path / "run" / "checkpoints" / "last").resolve().name == "step_1"


def test_a_failure_at_the_last_checkpoint_is_raised_in_place_of_the_end(whole: Path) -> None:
    class Full(Callback):
        def on_checkpoint(self, step: int, path: Path) -> None:
            raise OSError("no space left")

    called = Callbacks([Full(), recorder := Recorder()], first=True)
    called.checkpoint(4, whole / "checkpoints" / "step_4")
    with pytest.raises(OSError, match="no space left"):
        called.end(read_result(whole))
    assert (recorder.events, recorder.result) == ([("checkpoint", 4)], None)


def test_an_object_that_is_no_callback_is_refused_before_the_folder_is_made(
    config: Config, tmp_path: Path
) -> None:
    class Misspelt(Callback):
        def on_stpe(self, step: int) -> None: ...

    class Partial:
        def on_step(self, step: int, metrics: Mapping[str, float]) -> None: ...

    wrong: list[Any] = [Misspelt(), Partial(), Recorder]
    with pytest.raises(ConfigError) as error:
        train(config, out=tmp_path / "run", callbacks=wrong)
    assert [mistake.split(";")[0] for mistake in error.value.mistakes] == [
        "callbacks: Misspelt.on_stpe: unknown",
        "callbacks: Partial has no on_evaluation, on_checkpoint, on_end",
        "callbacks: Recorder is a class",
    ]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("at", [2, 3])  # between two stages, and within one
def test_a_resumed_run_keeps_no_file_of_its_checkpoint_open(
    config: Config, tmp_path: Path, at: int
) -> None:
    """Its state has the optimiser's size, and a deleted file that is open takes its room on the disk until the run ends."""
    out = tmp_path / "run"

    def stop() -> None:
        raise StopTraining("enough")

    train(config, out=out, callbacks=[Recorder(stop, at=at)])
    mapped: list[str] = []
    look = Recorder(lambda: mapped.append(Path("/proc/self/maps").read_text()), at=at + 1)
    train(config, out=out, resume=True, callbacks=[look])
    assert [line for line in mapped[0].splitlines() if str(out) in line] == []
