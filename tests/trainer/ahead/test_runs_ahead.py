"""Runs that sample ahead of training: equal prompts, seeds and batches whatever ends first, and clean ends."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import streaming_engines
from tests.fakes.streaming_engines import Script
from tests.trainer.small_runs import Killed, assert_same_run, killed_and_resumed, lines
from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.distributed.interrupts import Interrupted
from vlrft.schema.errors import ConfigError, DataError
from vlrft.trainer.ahead.steps import StepsAhead
from vlrft.trainer.callbacks import Callback
from vlrft.trainer.train import train

TINY = """
task: {name: digits, options: {subtasks: [classify], train: 12, test: 4}}
policy: {build: {hidden_size: 16, layers: 1, heads: 2, kv_heads: 1, intermediate_size: 16, vision_width: 16, vision_layers: 1}}
rollout: {group_size: 2, max_tokens: 6, engine: "tests.fakes.streaming_engines:Scripted"}
algorithm: {name: grpo, regularize: {kl: 0}, correction: {level: token}}
stages: [{steps: 4, prompts_per_step: 2}]
eval: {limit: 1, every: 2}
save: {every: 0}
self_check: false
prefetch_threads: 0
"""
EVEN = """
def even(completion, sample):
    return float(completion in tuple("02468"))
"""
DIGITS = """
def digits(completion, sample):
    return sum(c.isdigit() for c in completion) / max(len(completion), 4)
"""
COPY = "tests.fakes.streaming_engines:Copy"
OWN = ("staleness/", "time/", "speed/")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    fresh = Script()
    monkeypatch.setattr(streaming_engines, "script", fresh)
    return fresh


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Config]:
    def make(*overrides: str) -> Config:
        path = tmp_path / "tiny.yaml"
        path.write_text(TINY)
        (tmp_path / "mine.py").write_text(EVEN)
        rewards = f"task.rewards={{{tmp_path / 'mine.py'}:even: 1.0}}"
        own = any(override.startswith("task=") for override in overrides)
        return load_config(str(path), overrides if own else (rewards, *overrides))

    return make


@contextmanager
def releasing(script: Script, releases: Iterable[tuple[int, Callable[[], None]]]) -> Iterator[None]:
    """Holds requests, and calls each function when as many have been submitted. Where that many never are, all requests
    end and the test fails."""
    script.hold = lambda sample, version: True
    late: list[AssertionError] = []

    def work() -> None:
        try:
            for count, let_go in releases:
                script.wait_for(lambda count=count: len(script.submitted) >= count)  # type: ignore[misc]
                let_go()
        except AssertionError as e:
            late.append(e)
            script.hold = lambda sample, version: False
            script.let_go()

    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()
    assert not late, f"only {len(script.submitted)} requests were submitted"


def plain_metrics(run: Path) -> list[dict[str, Any]]:
    """The metrics that do not depend on `rollout.ahead`."""
    rows = lines(run / "metrics.jsonl")
    return [{k: v for k, v in row.items() if not k.startswith(OWN)} for row in rows]


def plain_rollouts(run: Path) -> list[dict[str, Any]]:
    rows = lines(run / "rollouts.jsonl")
    return [{k: v for k, v in row.items() if k != "policy_steps"} for row in rows]


def no_step_is_left() -> bool:
    return not any(t.name.startswith("vlrft-step") for t in threading.enumerate())


@pytest.mark.parametrize("keep", ["all", "{name: dynamic_sampling, max_attempts: 3}"])
def test_prompts_seeds_and_batches_do_not_depend_on_what_ends_first(
    config: Callable[..., Config], tmp_path: Path, script: Script, keep: str
) -> None:
    settings = f"algorithm.keep={keep}"
    in_turn = train(config(settings), out=tmp_path / "0").folder
    seeds = script.seeds
    for ahead in (1, 3) if keep == "all" else (2,):
        script.__init__()  # type: ignore[misc]
        run = tmp_path / str(ahead)
        if keep == "all":
            counts = range(2 * (1 + ahead), 9, 2)
            with releasing(script, ((n, lambda: script.let_go(newest_first=True)) for n in counts)):
                train(config(settings, f"rollout.ahead={ahead}"), out=run)
        else:
            train(config(settings, f"rollout.ahead={ahead}"), out=run)
        assert script.seeds == seeds
        assert plain_rollouts(run) == plain_rollouts(in_turn)
        assert plain_metrics(run) == plain_metrics(in_turn)
        assert no_step_is_left()


def test_rollouts_of_later_steps_are_under_way_while_a_step_is_waited_for(
    config: Callable[..., Config], tmp_path: Path, script: Script
) -> None:
    train(config(), out=tmp_path / "in_turn")
    samples = [sample for sample, _ in script.submitted]
    script.__init__()  # type: ignore[misc]
    counts = (6, 8, 8, 8)  # three steps, of which none has ended; then one at a time
    releases = (
        (count, partial(script.let_go, samples=samples[2 * step : 2 * step + 2]))
        for step, count in enumerate(counts)
    )
    with releasing(script, releases):
        run = train(config("rollout.ahead=2"), out=tmp_path / "run").folder
    versions = [version for _, version in script.submitted]
    assert versions == [0] * 6 + [1] * 2
    rows = lines(run / "metrics.jsonl")
    assert [row["staleness/max"] for row in rows] == [0, 1, 2, 2]
    assert [row["staleness/mean"] for row in rows] == [0, 1, 2, 2]
    assert {"time/waiting_s", "time/sampler_idle_s"} <= json.loads(
        (run / "metrics.jsonl").read_text().splitlines()[0]
    ).keys()
    told = [row["policy_steps"] for row in lines(run / "rollouts.jsonl") if row["step"] == 3]
    assert told
    assert all(steps == [0, 0] for steps in told)


def test_a_killed_run_plays_the_groups_under_way_again(
    config: Callable[..., Config], tmp_path: Path, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config("rollout.ahead=2", "save.every=1")
    whole = train(settings, out=tmp_path / "whole").folder
    seeds = script.seeds
    script.__init__()  # type: ignore[misc]
    parts = killed_and_resumed(settings, tmp_path / "parts", 3, monkeypatch)
    assert plain_rollouts(parts) == plain_rollouts(whole)
    assert plain_metrics(parts) == plain_metrics(whole)
    assert {sample: calls[-1] for sample, calls in script.seeds.items()} == {
        sample: calls[-1] for sample, calls in seeds.items()
    }


def test_without_ahead_a_killed_run_is_resumed_bit_for_bit_with_an_engine_that_streams(
    config: Callable[..., Config], tmp_path: Path, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config("save.every=1")
    whole = train(settings, out=tmp_path / "whole").folder
    assert_same_run(whole, killed_and_resumed(settings, tmp_path / "parts", 3, monkeypatch))
    assert "staleness/max" not in lines(whole / "metrics.jsonl")[0]


def test_an_error_of_a_rollout_ends_the_run_at_its_step(
    config: Callable[..., Config], tmp_path: Path, script: Script
) -> None:
    train(config(), out=tmp_path / "whole")
    third = script.submitted[4][0]
    script.__init__()  # type: ignore[misc]
    script.errors[third] = DataError(f"{third}: the server is gone")
    with pytest.raises(DataError, match="the server is gone"):
        train(config("rollout.ahead=2"), out=tmp_path / "run")
    assert [row["step"] for row in lines(tmp_path / "run" / "metrics.jsonl")] == [1, 2]
    assert no_step_is_left()


@pytest.mark.usefixtures("default_signals")
def test_a_second_interrupt_ends_a_run_that_waits_for_rollouts(
    config: Callable[..., Config], tmp_path: Path, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.hold = lambda sample, version: version > 0
    take = StepsAhead.take

    def interrupted_take(steps: StepsAhead[object], step: int) -> object:
        if step == 3:
            signal.raise_signal(signal.SIGINT)  # stop after this step
            main = threading.main_thread().ident
            assert main is not None
            again = threading.Thread(target=signal.pthread_kill, args=(main, signal.SIGINT))
            again.start()  # stop now
        return take(steps, step)

    monkeypatch.setattr(StepsAhead, "take", interrupted_take)
    with pytest.raises(Interrupted, match="stopped at once by SIGINT, after step 2 of 4; last"):
        train(config("rollout.ahead=1", "save.every=1"), out=tmp_path / "run")
    assert no_step_is_left()


def test_a_run_that_is_killed_within_a_step_leaves_no_thread(
    config: Callable[..., Config], tmp_path: Path, script: Script
) -> None:
    script.hold = lambda sample, version: version > 0
    with pytest.raises(Killed):
        train(config("rollout.ahead=1"), out=tmp_path / "run", callbacks=[KillAt(2)])
    assert no_step_is_left()


class KillAt(Callback):
    """A callback that simulates a kill after a step."""

    def __init__(self, step: int) -> None:
        self.at = step

    def on_step(self, step: int, metrics: Mapping[str, float]) -> None:
        if step == self.at:
            raise Killed


def test_a_stage_of_gold_answers_is_not_sampled_ahead(
    config: Callable[..., Config], tmp_path: Path, script: Script
) -> None:
    stages = (
        "stages=[{algorithm: sft, steps: 1, prompts_per_step: 2}, {steps: 2, prompts_per_step: 2}]"
    )
    run = train(config(stages, "rollout.ahead=3"), out=tmp_path / "run").folder
    first, second, third = lines(run / "metrics.jsonl")
    assert "staleness/max" not in first
    assert (second["staleness/max"], third["staleness/max"]) == (0, 1)
    assert [version for _, version in script.submitted] == [1] * 4


def test_episodes_of_several_turns_do_not_depend_on_how_far_ahead_they_are_played(
    config: Callable[..., Config], tmp_path: Path, script: Script
) -> None:
    env = "task={name: gridworld, options: {cell: 14, max_steps: 3, train: 4, test: 1}, env: {max_turns: 2}}"
    runs = [
        train(config(env, "stages.0.steps=3", f"rollout.ahead={k}"), out=tmp_path / str(k)).folder
        for k in (0, 2)
    ]
    in_turn, ahead = map(plain_rollouts, runs)
    assert [len(row["turns"]) for row in in_turn] == [2] * 12
    assert ahead == in_turn


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            ["rollout.engine=hf"],
            "stages.0.rollout.ahead: 2, but the rollout engine hf samples with the module that is trained",
        ),
        (
            ["algorithm=gpg"],
            "add: algorithm: {name: gpg, correction: {level: token, rule: truncate, cap: 2.0}}",
        ),
        (["stages.0.prompts=greso"], "(stages.0.prompts: greso); use rollout.ahead=0, or"),
        (["rollout.top_p=0.9"], "stages.0.rollout.top_p: 0.9, but algorithm.correction divides"),
        (["rollout.top_k=5"], "use rollout.top_k=0, or algorithm.correction=null"),
    ],
)
def test_what_does_not_go_with_rollouts_ahead_is_refused_before_the_run(
    config: Callable[..., Config], tmp_path: Path, overrides: list[str], line: str
) -> None:
    with pytest.raises(ConfigError) as error:
        train(config("rollout.ahead=2", *overrides), out=tmp_path / "run")
    assert line in str(error.value)
    assert not (tmp_path / "run").exists()


def test_the_line_that_a_refusal_proposes_is_accepted(
    config: Callable[..., Config], tmp_path: Path, script: Script
) -> None:
    proposed = "algorithm={name: gpg, correction: {level: token, rule: truncate, cap: 2.0}}"
    run = train(config("rollout.ahead=1", proposed, "stages.0.steps=1"), out=tmp_path / "run")
    assert lines(run.folder / "metrics.jsonl")[0]["correction/touched"] >= 0


@pytest.mark.parametrize("ahead", [1, 2])
def test_a_policy_learns_from_rollouts_of_earlier_weights(
    config: Callable[..., Config], tmp_path: Path, ahead: int
) -> None:
    (tmp_path / "count.py").write_text(DIGITS)
    settings = config(
        f"rollout={{engine: '{COPY}', ahead: {ahead}, group_size: 8, max_tokens: 6}}",
        f"task.rewards={{{tmp_path / 'count.py'}:digits: 1.0}}",
        "stages=[{steps: 16, prompts_per_step: 4}]",
        "update.lr=0.04",
        "self_check=true",
    )
    rows = lines(train(settings, out=tmp_path / "run").folder / "metrics.jsonl")
    rewards = [row["reward/mean"] for row in rows]
    assert max(rewards[:2]) < 0.1
    assert rewards[-1] > 0.5
    assert 0 < max(row["staleness/max"] for row in rows) <= ahead
    assert rows[-1]["sampler_gap/max"] > 0.01  # other weights sampled
