"""Rewards of every signature over batches of groups, in this process and in workers."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.scoring.rollouts import GROUPS, as_rewards, flat, group, sample
from vlrft.config import RewardConfig
from vlrft.rollout.task import load_rewards
from vlrft.schema import (
    DataError,
    RewardError,
    Rollout,
    Sample,
)
from vlrft.schema.errors import ConfigError
from vlrft.scoring.rewards import score_groups
from vlrft.scoring.weighted import WeightedReward

MINE = """
import asyncio, os, re, time, pathlib, ctypes
from vlrft.schema import DataError

def right(completion, sample): return float(completion == sample.answer)
def best(completions, sample): return [float(len(c) == max(map(len, completions))) for c in completions]
def share(completions, samples): return [completions.count(c) / len(completions) for c in completions]
def trl(prompts, completions, answer, **kwargs):
    return [float(c[0]["content"] == a) for c, a in zip(completions, answer)]
async def later(completion, sample):
    await asyncio.sleep(0.01)
    return float(completion == sample.answer)
async def silent(completion, sample):
    try: await asyncio.sleep(600 if completion == "hang" else 0)
    except asyncio.CancelledError:
        pathlib.Path(sample.tags["log"]).touch()
        await asyncio.sleep(0.5)  # does not end at once
    return 1.0
class Judge:
    def __init__(self, value): self.value = value
    async def __call__(self, completions, samples): return [self.value] * len(completions)
judge = Judge(0.5)
def hangs(completion, sample):
    if completion == "hang": re.match(r"(a+)+$", "a" * 60 + "b")
    return 1.0
def dies(completion, sample):
    if completion == "hang": os._exit(7)
    return 1.0
def raises(completion, sample):
    if completion == "hang": raise KeyError("no such thing")
    return 1.0
def nan(completion, sample): return float("nan") if completion == "hang" else 1.0
def nans(completions, sample): return [nan(c, sample) for c in completions]
def gold(completion, sample): raise DataError(f"sample {sample.id}: gold answer None")
def stuck(completion, sample):
    pathlib.Path(sample.tags["log"]).touch()
    re.match(r"(a+)+$", "a" * 60 + "b")
def slow(completion, sample):
    with open(sample.tags["log"], "a") as log: log.write("x")
    time.sleep(600)
"""
ALL = ("right", "best", "share", "trl", "later", "judge")


HANGING = [group(sample("a", "x"), "x", "yy"), group(sample("b", "yy"), "x", "hang")]
EXPECTED = {
    "right": [1, 0, 0, 1, 0],
    "best": [0, 1, 0, 0, 1],
    "share": [0.4, 0.4, 0.4, 0.4, 0.2],
    "trl": [1, 0, 0, 1, 0],
    "later": [1, 0, 0, 1, 0],
    "judge": [0.5] * 5,
}


@pytest.fixture
def module_file(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    return str(tmp_path / "mine.py")


@pytest.fixture
def rewards(module_file: str) -> Iterator[Any]:
    """A function that makes rewards of mine.py; their processes are ended after the test."""
    weighted: list[WeightedReward] = []

    def make(*names: str, **settings: Any) -> Sequence[WeightedReward]:
        weighted[:] = load_rewards({f"{module_file}:{n}": RewardConfig(**settings) for n in names})
        return weighted

    yield make
    for reward in weighted:
        if reward.workers is not None:
            reward.workers.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_every_scope_gives_the_same_in_the_process_and_in_workers(
    rewards: Any, workers: int
) -> None:
    scored = flat(score_groups(GROUPS, rewards(*ALL, workers=workers)))
    assert {name: [r.scores[name] for r in scored] for name in ALL} == EXPECTED
    assert [r.reward for r in scored] == pytest.approx(
        [sum(column) for column in zip(*EXPECTED.values(), strict=True)]
    )


def test_rewards_of_every_scope_may_return_parts_and_none() -> None:
    def parts(completions: list[str], sample: Sample) -> list[Any]:
        return [{"a": 1, "b": None}, None, 0.5][: len(completions)]

    scored = flat(score_groups(GROUPS[1:], as_rewards(parts)))
    assert [dict(r.scores) for r in scored] == [
        {"mine/a": 1.0, "mine/b": None},
        {"mine": None},
        {"mine": 0.5},
    ]


def test_no_call_is_made_without_rollouts() -> None:
    def never(completions: list[str], samples: list[Sample]) -> list[float]:
        raise AssertionError

    assert score_groups([], as_rewards(never)) == []
    assert score_groups([[]], as_rewards(never)) == [[]]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0], "samples a … b: reward mine returned 1 scores for 5 completions"),
        (1.0, "samples a … b: reward mine returned a float, not a list"),
        ([0, 0, 0, math.nan, 0], "sample b: reward mine returned nan"),
        ([0, 0, "1", 0, 0], "sample b: reward mine returned a str"),
    ],
)
def test_a_batch_of_the_wrong_shape_names_the_samples(value: Any, message: str) -> None:
    def batch(completions: list[str], samples: list[Sample]) -> Any:
        return value

    with pytest.raises(RewardError, match=re.escape(message)):
        score_groups(GROUPS, as_rewards(batch))


def test_arrays_are_read_as_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    def batch(completions: list[str], samples: list[Sample]) -> Any:
        return np.arange(5, dtype=np.float32)

    scored = flat(score_groups(GROUPS, as_rewards(batch)))
    assert [r.reward for r in scored] == [0, 1, 2, 3, 4]


def test_asynchronous_calls_run_concurrently() -> None:
    async def waits(completion: str, sample: Sample) -> float:
        await asyncio.sleep(0.3)
        return 1.0

    start = time.monotonic()
    score_groups(
        GROUPS, [*as_rewards(waits), WeightedReward(name="two", weight=1.0, function=waits)]
    )
    assert time.monotonic() - start < 0.9  # ten waits of 0.3 s


def test_asynchronous_rewards_share_one_loop_and_work_inside_another() -> None:
    loops: set[int] = set()

    async def remembers(completion: str, sample: Sample) -> float:
        loops.add(id(asyncio.get_running_loop()))
        return 1.0

    async def notebook() -> None:
        score_groups(GROUPS, as_rewards(remembers))

    asyncio.run(notebook())
    score_groups(GROUPS, as_rewards(remembers))
    assert len(loops) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "hangs",
            "sample b: reward hangs took longer than 0.5 s and was killed; raise its time_limit",
        ),
        ("dies", "sample b: reward dies raised WorkerDied: its process died (exit code 7)"),
        ("raises", "sample b: reward raises raised KeyError: 'no such thing'"),
        ("nan", "sample b: reward nan returned nan"),
    ],
)
def test_a_call_that_fails_in_a_worker_fails_the_step_or_counts_zero(
    rewards: Any, name: str, message: str
) -> None:
    # a busy machine may hold up a call that does not hang
    settings = {"workers": 2, "time_limit": 0.5 if name == "hangs" else 30.0}
    with pytest.raises(RewardError, match=re.escape(message)):
        score_groups(HANGING, rewards(name, **settings))
    scored = flat(score_groups(HANGING, rewards(name, "right", **settings, on_error="zero")))
    assert [r.scores[name] for r in scored] == [1, 1, 1, 0]
    assert [r.errors for r in scored[:-1]] == [{}, {}, {}]
    assert list(scored[-1].errors) == [name]
    assert message in scored[-1].errors[name]


def test_an_asynchronous_call_past_its_time_limit_fails_without_workers(
    rewards: Any, tmp_path: Path
) -> None:
    asked = [group(sample("b", "yy", log=str(tmp_path / "log")), "x", "hang")]
    message = (
        "sample b: reward silent took longer than 0.3 s; raise its time_limit or make it faster"
    )
    with pytest.raises(RewardError, match=re.escape(message)):
        score_groups(asked, rewards("silent", time_limit=0.3))
    scored = flat(score_groups(asked, rewards("silent", time_limit=0.3, on_error="zero")))
    assert [r.scores["silent"] for r in scored] == [1, 0]
    assert scored[-1].errors == {"silent": message}
    assert (tmp_path / "log").exists()  # it was cancelled


@pytest.mark.parametrize("name", ["right", "share", "trl"])
def test_a_time_limit_without_workers_is_refused_for_what_cannot_be_cancelled(
    rewards: Any, name: str
) -> None:
    with pytest.raises(ConfigError, match=f"mine.py:{name}: a time_limit needs workers: 1 or more"):
        rewards(name, time_limit=1.0)


def test_errors_count_zero_one_by_one_without_workers(rewards: Any) -> None:
    scored = flat(score_groups(HANGING, rewards("raises", "nans", on_error="zero")))
    assert [r.reward for r in scored] == [2, 2, 2, 0]
    assert [list(r.errors) for r in scored] == [[], [], [], ["raises", "nans"]]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_unreadable_gold_answer_is_never_zero(rewards: Any, workers: int) -> None:
    with pytest.raises(DataError, match="sample a: gold answer"):
        score_groups(GROUPS, rewards("gold", on_error="zero", workers=workers))


def test_no_call_is_made_after_a_failure_that_stops_the_run(rewards: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    question = sample("a", "x", log=str(log))
    with pytest.raises(RewardError, match="sample a: reward slow took longer"):
        score_groups([group(question, *"xyzuvw")], rewards("slow", workers=2, time_limit=0.5))
    assert len(log.read_text()) == 2


def test_ctrl_c_ends_calls_in_workers_at_once(module_file: str, tmp_path: Path) -> None:
    script = f"""
import os, pathlib, signal, threading, time
from tests.scoring.test_calls import group, sample
from vlrft.rollout.task import load_rewards
from tests.scoring.rollouts import GROUPS, as_rewards, flat, group, sample
from vlrft.config import RewardConfig
from vlrft.scoring.rewards import score_groups

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what a shell starts in the background
reward = RewardConfig(workers=2, time_limit=30, on_error="zero")
log = pathlib.Path({str(tmp_path / "log")!r})

def interrupt():
    while not log.exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
question = sample("a", "x", log=str(log))
score_groups([group(question, *["hang"] * 20)], load_rewards({{"{module_file}:stuck": reward}}))
"""
    command = [sys.executable, "-c", script]  # its calls would take five minutes
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert "KeyboardInterrupt" in done.stderr


def test_scoring_works_in_a_thread(rewards: Any) -> None:
    scored: list[Rollout] = []
    selected = rewards("right", "later", workers=1)
    thread = threading.Thread(target=lambda: scored.extend(flat(score_groups(GROUPS, selected))))
    thread.start()
    thread.join()
    assert [r.reward for r in scored] == [2, 0, 0, 2, 0]


def test_the_rollouts_of_an_environment_keep_their_scores(rewards: Any) -> None:
    won = [
        [dataclasses.replace(r, reward=2.0, scores={"won": 1.0}) for r in group] for group in GROUPS
    ]
    scored = flat(score_groups(won, rewards("right")))
    assert [r.reward for r in scored] == [3, 2, 2, 3, 2]
    assert scored[0].scores == {"won": 1.0, "right": 1.0}
