"""Episodes against an engine that streams: the same rollouts as in lock-step, and none waits for another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Tiny
from tests.fakes.envs import texts
from tests.fakes.streaming import ShuffledEngine
from tests.rollout.test_play import TASK, Count, loaded_task
from vlrft.config import EnvConfig
from vlrft.envs import EnvPool
from vlrft.policy.chat import Chat
from vlrft.rollout.engines import Limits, Request, Sampling
from vlrft.rollout.play import play
from vlrft.rollout.task import LoadedTask
from vlrft.schema import ENVIRONMENT, Piece, Sample, Step
from vlrft.schema.errors import NonFiniteError
from vlrft.testing.scripted_engine import ScriptedEngine
from vlrft.testing.small_policies import sample

SAMPLING = Sampling(max_tokens=200)
TEXTS = "tests.fakes.envs:texts"


def from_seed(request: Request, seed: int) -> str:
    """Often the next number, and sometimes not: it depends on the prompt's length and on the seed."""
    return str((seed + len(request.prompt.ids)) % 4)


@pytest.mark.parametrize("kind", ["plain", "anchor", "grows", "raises", "broken"])
def test_episodes_are_those_of_lock_step_in_whatever_order_answers_come(
    tiny: Tiny, kind: str
) -> None:
    chat = tiny("qwen2").chat
    samples = [sample(f"game {k}", kind if k % 2 else "plain") for k in range(4)]
    seeds = [[10 * k + g for g in range(3)] for k in range(4)]
    sampling = replace(SAMPLING, limits=Limits(max_prompt_tokens=80))
    loaded = loaded_task(env=EnvConfig(max_turns=6, invalid_penalty=0.25))
    expected = play(loaded, samples, ScriptedEngine(chat, from_seed), chat, sampling, seeds=seeds)
    for shuffle in range(3):
        engine = ShuffledEngine(chat, from_seed, shuffle)
        assert play(loaded, samples, engine, chat, sampling, seeds=seeds) == expected
    ends = {rollout.ended for group in expected for rollout in group.rollouts}
    assert {"grows": "tokens", "raises": "error", "broken": "error"}.get(kind, "done") in ends


def test_a_task_of_one_turn_streams_too(tiny: Tiny) -> None:
    chat = tiny("qwen2").chat
    loaded = loaded_task(replace(TASK, env=None, graders={}, env_scores=()))
    samples = [sample(f"Say {k}.") for k in range(3)]
    seeds = [[1, 2], [3, 4], [5, 6]]
    expected = play(loaded, samples, ScriptedEngine(chat, from_seed), chat, SAMPLING, seeds=seeds)
    engine = ShuffledEngine(chat, from_seed)
    assert play(loaded, samples, engine, chat, SAMPLING, seeds=seeds) == expected
    assert sorted(len(request.seeds) for request in engine.requests) == [2, 2, 2]


def echo_task(pool: EnvPool) -> LoadedTask:
    loaded = LoadedTask(task=texts, samples=(), rewards=())
    loaded.__dict__["host"] = pool  # in the place of the one that it would make
    return loaded


def test_one_environment_asleep_holds_up_none_of_the_others(tiny: Tiny, tmp_path: Path) -> None:
    """It wakes when the others have had their last answers, so in lock-step it would never wake."""
    chat, latch = tiny("qwen2").chat, tmp_path / "latch"
    names = ["slow", "b", "c", "d", "e"]
    ends: list[str] = []

    def answer(request: Request, seed: int) -> str:
        shown = chat.decode(request.prompt.ids)
        turn = sum(shown.count(word) for word in ("left", "await", "up"))
        if request.id == "slow" and turn == 0:
            return f"await {latch}"
        if turn < 2:
            return "up" if turn else "left"
        ends.append(request.id)
        if len(ends) == len(names) - 1:
            latch.touch()
        return "end"

    pool = EnvPool(TEXTS, 2, time_limit=30, move_seconds=0.0)
    engine = ShuffledEngine(chat, answer)
    samples = [Sample(id=name, messages=()) for name in names]
    groups = play(echo_task(pool), samples, engine, chat, SAMPLING, seeds=[[k] for k in range(5)])
    pool.shutdown()
    assert [group.sample.id for group in groups] == names
    rollouts = [group.rollouts[0] for group in groups]
    assert {(rollout.ended, len(rollout.turns)) for rollout in rollouts} == {("done", 3)}
    assert ends[-1] == "slow"


@pytest.mark.parametrize("command", ["die", "hang"])
def test_an_environment_that_is_lost_disturbs_no_other_episode(tiny: Tiny, command: str) -> None:
    chat = tiny("qwen2").chat

    def answer(request: Request, seed: int) -> str:
        if request.id == "bad":
            return command
        return "end" if "left" in chat.decode(request.prompt.ids) else "left"

    pool = EnvPool(TEXTS, 2, time_limit=0.5 if command == "hang" else 20, start_limit=20)
    samples = [Sample(id=name, messages=()) for name in ("a", "bad", "c", "d")]
    seeds = [[0, 1]] * 4
    engine = ShuffledEngine(chat, answer)
    groups = play(echo_task(pool), samples, engine, chat, SAMPLING, seeds=seeds)
    pool.shutdown()
    for group in groups:
        for rollout in group.rollouts:
            if group.sample.id == "bad":
                assert "sample bad: its environment" in rollout.errors[ENVIRONMENT]
                assert (rollout.ended, len(rollout.turns)) == ("error", 1)
            else:
                assert (rollout.ended, len(rollout.turns)) == ("done", 2)
                assert not rollout.errors


class Counted(Count):
    open = 0

    def __init__(self, sample: Sample) -> None:
        super().__init__(sample)
        Counted.open += 1

    def close(self) -> None:
        Counted.open -= 1


def failing(chat: Chat, problem: Callable[[Piece], Piece]) -> ShuffledEngine:
    class Failing(ShuffledEngine):
        def _piece(self, text: str, sampling: object) -> Piece:
            return problem(super()._piece(text, sampling))  # type: ignore[arg-type]

    return Failing(chat, from_seed)


def test_an_error_of_the_engine_ends_all_and_closes_the_environments(tiny: Tiny) -> None:
    def no_piece(piece: Piece) -> Piece:
        raise ConnectionError("the server is gone")

    chat = tiny("qwen2").chat
    loaded = loaded_task(replace(TASK, env=Counted))
    for engine, error in (
        (failing(chat, no_piece), ConnectionError),
        (
            failing(chat, lambda p: replace(p, logprobs=(float("nan"),) * len(p.ids))),
            NonFiniteError,
        ),
    ):
        with pytest.raises(error):
            play(loaded, [sample("game", "plain")], engine, chat, SAMPLING, seeds=[[0, 1, 2]])
        assert Counted.open == 0


def test_an_error_waits_for_no_environment_and_gives_up_what_is_under_way(
    tiny: Tiny, tmp_path: Path
) -> None:
    """Its environment would sleep for ever, and so would a completion that is never sampled."""
    chat = tiny("qwen2").chat
    never: list[Future[Piece]] = []

    class Stuck(ShuffledEngine):
        def submit(self, request, sampling):  # type: ignore[no-untyped-def]
            if request.id == "stuck":
                never.append(Future())
                return [never[0]]
            return super().submit(request, sampling)

    def answer(request: Request, seed: int) -> str:
        if request.id == "asleep":
            return f"await {tmp_path}/never"
        if "left" in chat.decode(request.prompt.ids):
            raise ConnectionError("the server is gone")
        return "left"

    pool = EnvPool(TEXTS, 2, time_limit=60)
    samples = [Sample(id=name, messages=()) for name in ("asleep", "stuck", "bad")]
    with pytest.raises(ConnectionError):
        play(echo_task(pool), samples, Stuck(chat, answer), chat, SAMPLING, seeds=[[0]] * 3)
    assert never[0].cancelled()
    pool.shutdown()


def test_a_prompt_that_rollouts_share_is_rendered_once(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = tiny("qwen2").chat
    rendered: list[str] = []
    render = chat.render

    def counting(messages, images=(), videos=(), *, name):  # type: ignore[no-untyped-def]
        rendered.append(name)
        return render(messages, images, videos, name=name)

    class Fixed(Count):
        """Every turn looks alike."""

        def step(self, text: str) -> Step:
            step = super().step(text)
            return step if step.done else replace(step, observation=self.start())

    monkeypatch.setattr(chat, "render", counting)
    engine = ShuffledEngine(chat, lambda request, seed: "7")
    loaded = loaded_task(replace(TASK, env=Fixed), env=EnvConfig(max_turns=3))
    samples = [sample("x", "plain"), sample("y", "plain")]
    play(loaded, samples, engine, chat, SAMPLING, seeds=[[0, 1, 2], [3, 4, 5]])
    assert sorted(rendered) == ["x", "y"]
    seeds = [seed for request in engine.requests for seed in request.seeds]
    assert len(set(seeds)) == 18
