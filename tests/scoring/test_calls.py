"""Rewards of every scope and form over whole batches of groups, in the run's process and in workers."""

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
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.policies import noise_image
from vlrft.config import RewardConfig
from vlrft.rollout.task import load_rewards
from vlrft.schema import (
    IMAGE,
    DataError,
    Message,
    Piece,
    Prompt,
    RewardError,
    Rollout,
    Sample,
    TrainingRow,
)
from vlrft.scoring.rewards import WeightedReward, score_groups

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
def slow(completion, sample):
    with open(sample.tags["log"], "a") as log: log.write("x")
    time.sleep(600)
"""
ALL = ("right", "best", "share", "trl", "later", "judge")


def sample(name: str, answer: str, **tags: str) -> Sample:
    return Sample(
        id=name, messages=(Message(role="user", content=(name,)),), answer=answer, tags=tags
    )


def group(asked: Sample, *answers: str) -> list[Rollout]:
    def rollout(text: str) -> Rollout:
        ids = tuple(text.encode())
        pieces = (Piece(ids=ids, text=text), Piece(ids=(1,), text="seen", sampled=False))
        return Rollout(sample=asked, rows=(TrainingRow(prompt=Prompt(ids=(1,)), pieces=pieces),))

    return [rollout(text) for text in answers]


GROUPS = [group(sample("a", "x"), "x", "yy"), group(sample("b", "yy"), "x", "yy", "yyy")]
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
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    return str(tmp_path / "mine.py")


@pytest.fixture
def rewards(mine: str) -> Iterator[Any]:
    """Makes rewards of mine.py, and ends their processes."""
    made: list[WeightedReward] = []

    def make(*names: str, **settings: Any) -> Sequence[WeightedReward]:
        made[:] = load_rewards({f"{mine}:{n}": RewardConfig(**settings) for n in names})
        return made

    yield make
    for reward in made:
        if reward.workers is not None:
            reward.workers.close()


def flat(groups: Sequence[Sequence[Rollout]]) -> list[Rollout]:
    return [rollout for own in groups for rollout in own]


@pytest.mark.parametrize("workers", [0, 2])
def test_every_scope_gives_the_same_in_the_process_and_in_workers(
    rewards: Any, workers: int
) -> None:
    found = flat(score_groups(GROUPS, rewards(*ALL, workers=workers)))
    assert {name: [r.scores[name] for r in found] for name in ALL} == EXPECTED
    assert [r.reward for r in found] == pytest.approx(
        [sum(column) for column in zip(*EXPECTED.values(), strict=True)]
    )


def alone(function: Any, **settings: Any) -> list[WeightedReward]:
    return [WeightedReward(name="mine", weight=1.0, function=function, **settings)]


def test_components_and_none_come_from_every_scope() -> None:
    def parts(completions: list[str], sample: Sample) -> list[Any]:
        return [{"a": 1, "b": None}, None, 0.5][: len(completions)]

    found = flat(score_groups(GROUPS[1:], alone(parts)))
    assert [dict(r.scores) for r in found] == [
        {"mine/a": 1.0, "mine/b": None},
        {"mine": None},
        {"mine": 0.5},
    ]


def test_no_rollouts_are_no_call() -> None:
    def never(completions: list[str], samples: list[Sample]) -> list[float]:
        raise AssertionError

    assert score_groups([], alone(never)) == []
    assert score_groups([[]], alone(never)) == [[]]


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ([1.0], "samples a … b: reward mine returned 1 scores for 5 completions"),
        (1.0, "samples a … b: reward mine returned a float, not a list"),
        ([0, 0, 0, math.nan, 0], "sample b: reward mine returned nan"),
        ([0, 0, "1", 0, 0], "sample b: reward mine returned a str"),
    ],
)
def test_a_batch_of_the_wrong_shape_names_the_samples(value: Any, what: str) -> None:
    def batch(completions: list[str], samples: list[Sample]) -> Any:
        return value

    with pytest.raises(RewardError, match=re.escape(what)):
        score_groups(GROUPS, alone(batch))


def test_arrays_are_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    def batch(completions: list[str], samples: list[Sample]) -> Any:
        return np.arange(5, dtype=np.float32)

    found = flat(score_groups(GROUPS, alone(batch)))
    assert [r.reward for r in found] == [0, 1, 2, 3, 4]


def test_asynchronous_calls_wait_together() -> None:
    async def waits(completion: str, sample: Sample) -> float:
        await asyncio.sleep(0.3)
        return 1.0

    start = time.monotonic()
    score_groups(GROUPS, [*alone(waits), WeightedReward(name="two", weight=1.0, function=waits)])
    assert time.monotonic() - start < 0.9  # ten waits of 0.3 s


def test_asynchronous_rewards_keep_their_loop_and_run_inside_another() -> None:
    loops: set[int] = set()

    async def remembers(completion: str, sample: Sample) -> float:
        loops.add(id(asyncio.get_running_loop()))
        return 1.0

    async def notebook() -> None:
        score_groups(GROUPS, alone(remembers))

    asyncio.run(notebook())
    score_groups(GROUPS, alone(remembers))
    assert len(loops) == 1


@pytest.mark.parametrize(
    ("name", "what"),
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
    rewards: Any, name: str, what: str
) -> None:
    settings = {"workers": 2, "time_limit": 0.5}
    with pytest.raises(RewardError, match=re.escape(what)):
        score_groups(HANGING, rewards(name, **settings))
    found = flat(score_groups(HANGING, rewards(name, "right", **settings, on_error="zero")))
    assert [r.scores[name] for r in found] == [1, 1, 1, 0]
    assert [list(r.errors) for r in found] == [[], [], [], [name]]
    assert what in found[-1].errors[name]


def test_errors_count_zero_without_workers_too_and_one_by_one(rewards: Any) -> None:
    found = flat(score_groups(HANGING, rewards("raises", "nans", on_error="zero")))
    assert [r.reward for r in found] == [2, 2, 2, 0]
    assert [list(r.errors) for r in found] == [[], [], [], ["raises", "nans"]]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_unreadable_gold_answer_is_never_zero(rewards: Any, workers: int) -> None:
    with pytest.raises(DataError, match="sample a: gold answer"):
        score_groups(GROUPS, rewards("gold", on_error="zero", workers=workers))


def test_after_a_failure_that_stops_the_run_no_call_is_made(rewards: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    asked = sample("a", "x", log=str(log))
    with pytest.raises(RewardError, match="sample a: reward slow took longer"):
        score_groups([group(asked, *"xyzuvw")], rewards("slow", workers=2, time_limit=0.5))
    assert len(log.read_text()) == 2


def test_ctrl_c_ends_calls_in_workers_at_once(mine: str) -> None:
    script = f"""
import os, signal, threading
from tests.scoring.test_calls import group, sample
from vlrft.rollout.task import named_rewards
from vlrft.config import RewardConfig
from vlrft.scoring.rewards import score_groups

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what a shell starts in the background
reward = RewardConfig(workers=2, time_limit=30, on_error="zero")
threading.Timer(2.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
score_groups([group(sample("a", "x"), *["hang"] * 20)], load_rewards({{"{mine}:hangs": reward}}))
"""
    command = [sys.executable, "-c", script]  # its calls would take five minutes
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert "KeyboardInterrupt" in done.stderr


def test_a_thread_may_score(rewards: Any) -> None:
    found: list[Rollout] = []
    chosen = rewards("right", "later", workers=1)
    thread = threading.Thread(target=lambda: found.extend(flat(score_groups(GROUPS, chosen))))
    thread.start()
    thread.join()
    assert [r.reward for r in found] == [2, 0, 0, 2, 0]


def test_a_trl_function_gets_what_trl_gives_it() -> None:
    seen: dict[str, Any] = {}

    def reward(prompts: Any, completions: Any, completion_ids: Any, **kwargs: Any) -> list[float]:
        seen.update(kwargs, prompts=prompts, completions=completions, ids=completion_ids)
        kwargs["log_extra"]("column", [1, 2])
        kwargs["log_metric"]("name", 0.5)
        return [0.0] * len(completions)

    score_groups([group(sample("a", "x", kind="count"), "x", "yy")], alone(reward))
    assert seen["prompts"] == [[{"role": "user", "content": "a"}]] * 2
    assert seen["completions"] == [
        [{"role": "assistant", "content": "x"}],
        [{"role": "assistant", "content": "yy"}],
    ]
    assert seen["ids"] == [[120], [121, 121]]
    assert seen["id"] == ["a", "a"]
    assert seen["answer"] == seen["solution"] == ["x", "x"]
    assert seen["kind"] == ["count", "count"]
    assert "images" not in seen


def test_the_prompts_of_images_are_lists_of_parts_as_trl_makes_them() -> None:
    trl = pytest.importorskip("trl.data_utils")
    seen: dict[str, Any] = {}

    def reward(prompts: Any, completions: Any, images: Any, image: Any) -> list[float]:
        seen.update(prompts=prompts, images=images, image=image)
        return [0.0] * len(completions)

    picture = noise_image(8, 8)
    messages = (
        Message(role="system", content=("Be brief.",)),
        Message(role="user", content=(IMAGE, "Which?")),
    )
    asked = Sample(id="a", messages=messages, images=(picture,), answer="x")
    score_groups([group(asked, "x"), group(sample("b", "y"), "y")], alone(reward))
    written = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which?"}]
    plain = [{"role": "user", "content": "b"}]
    assert seen["prompts"] == [
        trl.prepare_multimodal_messages(written, [picture]),
        trl.prepare_multimodal_messages(plain, []),
    ]
    assert seen["images"] == [[picture], None]
    assert seen["image"] == [picture, None]


def test_a_trl_function_of_texts_gets_texts() -> None:
    def annotated(completions: list[str], **kwargs: Any) -> list[float]:
        return [float(len(c)) for c in completions]

    def bare(completions, **kwargs):  # type: ignore[no-untyped-def]
        return [float(len(c)) for c in completions]

    lengths = [1, 2, 1, 2, 3]
    assert [r.reward for r in flat(score_groups(GROUPS, alone(annotated)))] == lengths
    assert [r.reward for r in flat(score_groups(GROUPS, alone(bare)))] == [1] * 5
    assert [r.reward for r in flat(score_groups(GROUPS, alone(bare, strings=True)))] == lengths


def test_a_column_that_no_sample_has_is_named() -> None:
    def reward(completions: list[str], goal: list[str]) -> list[float]:
        return []

    what = "reward mine asks for goal; there is answer, completion_ids, completions, id"
    with pytest.raises(RewardError, match=what):
        score_groups(GROUPS, alone(reward))


def test_the_rollouts_of_an_environment_keep_their_scores(rewards: Any) -> None:
    won = [[dataclasses.replace(r, reward=2.0, scores={"won": 1.0}) for r in own] for own in GROUPS]
    found = flat(score_groups(won, rewards("right")))
    assert [r.reward for r in found] == [3, 2, 2, 3, 2]
    assert found[0].scores == {"won": 1.0, "right": 1.0}


def test_trl_s_own_rewards_score_as_in_its_trainer() -> None:
    trl = pytest.importorskip("trl")
    from trl import rewards as own

    functions = [
        own.think_format_reward,
        own.get_soft_overlong_punishment(max_completion_len=40, soft_punish_cache=20),
        own.get_repetition_penalty_reward(ngram_size=2, max_penalty=-1.0),
    ]
    texts = ("<think>a a a a a</think>b", "x" * 30, "ab ab ab ab", "", "<think></think>c")
    asked = [group(sample("a", "x"), *texts), group(sample("b", "y"), *texts[::-1])]
    named = [
        WeightedReward(name=str(k), weight=1.0, function=function)
        for k, function in enumerate(functions)
    ]
    ours = [[r.scores[n.name] for n in named] for r in flat(score_groups(asked, named))]
    rows = flat(asked)
    trainer = SimpleNamespace(
        accelerator=SimpleNamespace(device="cpu", is_main_process=True),
        reward_funcs=functions,
        reward_processing_classes=[None] * len(functions),
        reward_func_names=[n.name for n in named],
        state=SimpleNamespace(global_step=0),
        environments=None,
        args=SimpleNamespace(report_to=[]),
        _log_completion_extra=lambda *_: None,
        _log_metric=lambda *_: None,
    )
    theirs = trl.GRPOTrainer._calculate_rewards(
        trainer,
        [{"prompt": [{"role": "user", "content": r.sample.id}]} for r in rows],
        [[{"role": "user", "content": r.sample.id}] for r in rows],
        [[{"role": "assistant", "content": r.text}] for r in rows],
        [list(r.text.encode()) for r in rows],
    )
    assert len({tuple(row) for row in ours}) > 3
    assert theirs.tolist() == [pytest.approx(row, abs=1e-6) for row in ours]
