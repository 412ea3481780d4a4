"""The whole loop on episodes of many turns with images: rows, advantages, metrics, files, resume, demonstrations, and
the control with permuted rewards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from vlrft.tasks.gridworld.world import MOVES

from tests.trainer.small_runs import assert_same_run, killed_and_resumed, lines
from vlrft.advantages.rows import RowAdvantages
from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.grading import read_answer
from vlrft.policy.byte_cache import ByteCache
from vlrft.policy.chat import Chat
from vlrft.rollout.demonstrations import count_bytes, play_demonstrations
from vlrft.rollout.permute_rewards import permute_rewards
from vlrft.rollout.task import LoadedTask
from vlrft.schema import Group, Piece, Pixels, Prompt, Rollout, Sample, TrainingRow, Turn
from vlrft.testing.small_policies import sample
from vlrft.trainer.batch import make_batches
from vlrft.trainer.train import train

TINY = """
task:
  name: gridworld
  options: {cell: 14, max_steps: 4, train: 4, test: 4}
  env: {max_turns: 3, invalid_penalty: 0.25}
policy:
  build: {hidden_size: 32, layers: 1, heads: 4, kv_heads: 2, intermediate_size: 32, vision_width: 32, vision_layers: 1}
rollout: {group_size: 4, max_tokens: 5}
update: {lr: 1.0e-3}
stages:
  - {algorithm: {name: gpg, keep: all}, steps: 2, prompts_per_step: 2}
  - {algorithm: sft, steps: 2, prompts_per_step: 4}
  - {algorithm: gigpo, steps: 2, prompts_per_step: 2}
eval: {limit: 3}
save: {every: 1, keep_last: 10}
log: {groups_per_step: 9}
"""
CONTEXTS = ("rebuilt", "growing")


def lenient(text: str) -> str | None:
    """Reads a move, or none, from any text, so that an untrained policy wins, loses and makes invalid moves."""
    return read_answer(text) or (*MOVES, None)[len(text) % 5]


@dataclass
class Trained:
    """A run's folder, and the groups and advantages of each of its steps."""

    run: Path
    steps: list[tuple[Sequence[Group], Sequence[RowAdvantages]]] = field(default_factory=list)


def config(folder: Path, *overrides: str) -> Config:
    path = folder / "episodes.yaml"
    path.write_text(TINY)
    return load_config(str(path), overrides)


def of(context: str) -> str:
    return f"task.options.context={context}"


@pytest.fixture(scope="module")
def patched() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vlrft.tasks.gridworld.env.read_answer", lenient)
        yield patch


@pytest.fixture(scope="module")
def runs(
    patched: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Trained]:
    """One run for each kind of context."""
    runs: dict[str, Trained] = {}
    for context in CONTEXTS:
        folder = tmp_path_factory.mktemp(context)
        trained = runs[context] = Trained(folder / "run")

        def record(
            groups: Any, advantages: Any, *rest: Any, trained: Trained = trained, **more: Any
        ) -> Any:
            trained.steps.append((groups, advantages))
            return make_batches(groups, advantages, *rest, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("vlrft.trainer.stage.make_batches", record)
            train(config(folder, of(context)), out=trained.run)
    return runs


def rollouts(groups: Sequence[Group]) -> list[Rollout]:
    return [r for group in groups for r in group.rollouts]


def test_each_turn_is_a_row_with_its_image_where_the_context_is_rebuilt(
    runs: dict[str, Trained],
) -> None:
    for groups, _ in runs["rebuilt"].steps:
        for rollout in rollouts(groups):
            assert len(rollout.rows) == len(rollout.turns) > 0
            for row, turn in zip(rollout.rows, rollout.turns, strict=True):
                assert [p.sampled for p in row.pieces] == [True]
                assert row.pieces[0].images == ()
                assert len(row.prompt.images) == len(turn.images) == 1


def test_an_episode_is_one_row_with_all_its_images_where_the_context_grows(
    runs: dict[str, Trained],
) -> None:
    longest = 0
    for groups, _ in runs["growing"].steps:
        for rollout in rollouts(groups):
            (row,) = rollout.rows
            turns = len(rollout.turns)
            assert [p.sampled for p in row.pieces] == [True, *[False, True] * (turns - 1)]
            images = [*row.prompt.images, *(i for p in row.pieces for i in p.images)]
            assert len(images) == turns
            assert [len(p.images) for p in row.pieces] == [0, *[1, 0] * (turns - 1)]
            longest = max(longest, turns)
    assert longest == 4  # demonstrations, which no limit of turns ends


@pytest.mark.parametrize("context", CONTEXTS)
def test_an_image_is_the_one_that_was_shown(runs: dict[str, Trained], context: str) -> None:
    keys: dict[str, set[bytes]] = {}
    for groups, _ in runs[context].steps:
        for rollout in rollouts(groups):
            images = [
                image
                for row in rollout.rows
                for image in (*row.prompt.images, *(i for p in row.pieces for i in p.images))
            ]
            for image, turn in zip(images, rollout.turns, strict=True):
                keys.setdefault(image.key, set()).add(turn.images[0].tobytes())
    assert len(keys) > 4
    assert all(len(shown) == 1 for shown in keys.values())
    assert len(set.union(*keys.values())) == len(keys)


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_reward_of_an_episode_is_the_sum_over_its_turns(
    runs: dict[str, Trained], context: str
) -> None:
    won, ended = set[float | None](), set[str]()
    for groups, _ in runs[context].steps:
        for rollout in rollouts(groups):
            if rollout.origin == "injected":
                continue
            rewards = [turn.reward - turn.penalty for turn in rollout.turns]
            assert rollout.reward == pytest.approx(sum(rewards))
            assert [turn.penalty for turn in rollout.turns] == [
                0.0 if turn.valid else 0.25 for turn in rollout.turns
            ]
            assert rollout.turns[-1].reward == rollout.scores["won"]
            assert rollout.ended == ("done" if rollout.scores["won"] else "turns")
            won.add(rollout.scores["won"])
            ended.add(rollout.ended)
    assert won == {0.0, 1.0}
    assert ended == {"done", "turns"}


@pytest.mark.parametrize("context", CONTEXTS)
def test_advantages_are_those_of_the_episode_or_of_each_turn(
    runs: dict[str, Trained], context: str
) -> None:
    differ = dict.fromkeys(("gpg", "gigpo"), 0)
    for number, (groups, advantages) in enumerate(runs[context].steps):
        name = ("gpg", "gpg", "sft", "sft", "gigpo", "gigpo")[number]
        for group, by_rollout in zip(groups, advantages, strict=True):
            for rollout, rows in zip(group.rollouts, by_rollout, strict=True):
                for row, tokens in zip(rollout.rows, rows, strict=True):
                    assert len(tokens) == sum(len(p.ids) for p in row.pieces if p.sampled)
                every = {float(a) for row in rows for a in row}
                if name == "sft":
                    assert every == {1.0}
                elif len(every) > 1:
                    differ[name] += 1
    assert differ["gpg"] == 0
    assert differ["gigpo"] > 0


@pytest.mark.parametrize("context", CONTEXTS)
def test_rollouts_are_logged_turn_by_turn(runs: dict[str, Trained], context: str) -> None:
    trained = runs[context]
    rows = lines(trained.run / "rollouts.jsonl")
    steps = [zip(groups, advantages, strict=True) for groups, advantages in trained.steps]
    pairs = [pair for step in steps for pair in step]
    expected = [(r, a) for g, of_group in pairs for r, a in zip(g.rollouts, of_group, strict=True)]
    for row, (rollout, by_row) in zip(rows, expected, strict=True):
        assert "\n".join(t["said"] for t in row["turns"]) == row["completion"] == rollout.text
        assert row["ended"] == rollout.ended
        tokens = [float(a) for advantages in by_row for a in advantages]
        pieces = list(rollout.sampled_pieces)
        for piece, turn in zip(pieces, row["turns"], strict=True):
            of_turn, tokens = tokens[: len(piece.ids)], tokens[len(piece.ids) :]
            assert turn["advantage"] == pytest.approx(fmean(of_turn))
            assert piece.turn is not None
            assert turn["valid"] == piece.turn.valid
            assert turn["reward"] == piece.turn.reward - piece.turn.penalty
            assert turn["shown"] == "<image>"
            assert all((trained.run / name).is_file() for name in turn["images"])
            assert len(turn["images"]) == 1
    records = lines(trained.run / "evals.jsonl")
    assert {len(r["turns"]) for r in records} <= {1, 2, 3}
    assert all("advantage" not in t for r in records for t in r["turns"])
    assert "<h2>Episodes</h2>" in (trained.run / "report.html").read_text()


@pytest.mark.parametrize("context", CONTEXTS)
def test_metrics_are_those_of_the_episodes(runs: dict[str, Trained], context: str) -> None:
    metrics = lines(runs[context].run / "metrics.jsonl")
    for step in (1, 2, 5, 6):  # every rollout of these is trained on
        episodes, row = rollouts(runs[context].steps[step - 1][0]), metrics[step - 1]
        turns = [turn for r in episodes for turn in r.turns]
        expected = {
            "env/turns": len(turns) / 8,
            "env/valid": fmean(t.valid for t in turns),
            "env/truncated": fmean(r.ended == "turns" for r in episodes),
            "env/errors": 0.0,
            "length/turn_mean": sum(r.tokens for r in episodes) / len(turns),
            "episode/won": fmean(r.scores["won"] or 0.0 for r in episodes),
            "episode/steps": len(turns) / 8,
            "reward/mean": fmean(r.reward for r in episodes),
        }
        assert {name: row[name] for name in expected} == pytest.approx(expected)
        assert row["sampler_gap/max"] < 1e-4
        assert not any(name.startswith("groups/solved") for name in row)
    assert "reward/mean" not in metrics[2]  # demonstrations are not sampled
    assert metrics[2]["env/truncated"] == 0.0


def test_both_contexts_start_with_the_same_prompts_and_turns(runs: dict[str, Trained]) -> None:
    (one, _), (other, _) = (runs[context].steps[0] for context in CONTEXTS)
    texts = [
        [next(iter(r.sampled_pieces)).text for r in rollouts(groups)] for groups in (one, other)
    ]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 4
    firsts = [[r.rows[0].prompt.key for r in rollouts(groups)] for groups in (one, other)]
    assert firsts[0] == firsts[1]


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize(("context", "at"), [("rebuilt", 6), ("growing", 4)])
def test_a_killed_and_resumed_run_is_bit_identical(
    runs: dict[str, Trained], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: str, at: int
) -> None:
    wanted = config(tmp_path, of(context))
    resumed = killed_and_resumed(wanted, tmp_path / "parts", at, monkeypatch)
    assert_same_run(runs[context].run, resumed)


def sft_only(folder: Path, *more: str) -> Config:
    stages = "stages=[{algorithm: sft, steps: 3, prompts_per_step: 4}]"
    return config(folder, stages, "eval.limit=1", "save.every=0", *more)


@pytest.mark.parametrize("room", ["all", "one", "none"])
def test_demonstrations_are_played_once_while_the_cache_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: str
) -> None:
    played: list[list[str]] = []
    sizes: list[int] = []

    def count(loaded: LoadedTask, samples: Sequence[Sample], chat: Chat) -> list[Group]:
        played.append([s.id for s in samples])
        groups = play_demonstrations(loaded, samples, chat)
        sizes.extend(map(count_bytes, groups))
        if room == "one":
            monkeypatch.setattr(ByteCache, "put", keep_first)
        return groups

    def keep_first(self: ByteCache[Group], key: str, value: Group, size: int) -> None:
        if not self._entries:
            put(self, key, value, size)

    put = ByteCache.put
    monkeypatch.setattr("vlrft.rollout.demonstrations.play_demonstrations", count)
    if room == "none":
        monkeypatch.setattr(ByteCache, "put", lambda *args: None)
    run = train(sft_only(tmp_path), out=tmp_path / "run").folder
    again = {"all": 0, "one": 3, "none": 4}[room]
    planned, steps = played[:-3], played[-3:]  # the memory plan plays some of train and test
    assert [len(ids) for ids in steps] == [4, again, again]
    assert len(planned) == 2
    assert all(size > 1000 for size in sizes)
    losses = [m["loss"] for m in lines(run / "metrics.jsonl")]
    assert losses[-1] < losses[0]


def test_demonstrations_of_a_single_turn_are_not_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[int] = []

    def count(loaded: LoadedTask, samples: Sequence[Sample], chat: Chat) -> list[Group]:
        played.append(len(samples))
        return play_demonstrations(loaded, samples, chat)

    monkeypatch.setattr("vlrft.rollout.demonstrations.play_demonstrations", count)
    digits = "task={name: digits, options: {train: 4}}"
    train(sft_only(tmp_path, digits), out=tmp_path / "run")
    assert played == [4, 4, 4]


def test_the_bytes_of_a_group_count_each_image_once() -> None:
    def pixels(key: str, patches: int) -> Pixels:
        return Pixels(
            key=key, tokens=patches // 2, grid=(1, 1, patches), values=torch.zeros(patches, 8)
        )

    a, b = pixels("a", 4), pixels("b", 6)
    row = TrainingRow(
        prompt=Prompt(ids=(1, 2, 3), images=(a,)),
        pieces=(
            Piece(ids=(4, 5), text=""),
            Piece(ids=(6,), text="", sampled=False, images=(b, a)),
        ),
    )
    group = Group(sample=sample("a"), rollouts=(Rollout(sample=sample("a"), rows=(row, row)),))
    assert count_bytes(group) == 8 * 12 + 4 * 8 * 10


def episode(outcomes: Sequence[tuple[float, float]], *, growing: bool = False) -> Rollout:
    """An episode whose turns have these rewards and penalties."""
    answers = [
        Piece(ids=(7,), text=str(k), turn=Turn(reward=r, penalty=p, valid=not p, anchor=k))
        for k, (r, p) in enumerate(outcomes)
    ]
    between = Piece(ids=(8,), text="on", sampled=False)
    rows = [(piece,) for piece in answers]
    if growing:
        rows = [tuple(x for piece in answers for x in (between, piece))[1:]]  # type: ignore[list-item]
    return Rollout(
        sample=sample("a"),
        rows=tuple(TrainingRow(prompt=Prompt(ids=(1,)), pieces=pieces) for pieces in rows),
        reward=sum(r - p for r, p in outcomes),
        scores={"won": outcomes[-1][0]},
        ended="done" if outcomes[-1][0] else "turns",
    )


@pytest.mark.parametrize("growing", [False, True])
def test_the_last_turn_of_a_permuted_episode_gets_the_whole_reward(growing: bool) -> None:
    long = [(0.0, 0.25), (0.5, 0.0), (0.0, 0.25)]
    episodes = [episode(turns, growing=growing) for turns in (long, [(1.0, 0.0)], [(0.0, 0.0)] * 2)]
    one = Group(sample=sample("a"), rollouts=tuple(episodes))
    other = permute_rewards(one, seed=1)
    assert sorted(other.rewards) == sorted(one.rewards) == [0.0, 0.0, 1.0]
    assert other.rewards != one.rewards
    for before, after in zip(one.rollouts, other.rollouts, strict=True):
        assert after.text == before.text
        assert [t.anchor for t in after.turns] == [t.anchor for t in before.turns]
        assert [t.valid for t in after.turns] == [t.valid for t in before.turns]
        assert [t.penalty for t in after.turns] == [0.0] * len(before.turns)
        assert [t.reward for t in after.turns] == [0.0] * (len(before.turns) - 1) + [after.reward]
        assert after.scores["won"] == max(0.0, after.reward)


@pytest.mark.usefixtures("patched")
def test_the_control_permutes_the_rewards_of_episodes(tmp_path: Path) -> None:
    chosen = config(
        tmp_path,
        "permute_rewards=true",
        "stages=[{algorithm: gigpo, steps: 1, prompts_per_step: 4}]",
        "eval.limit=1",
        "save.every=0",
    )
    run = train(chosen, out=tmp_path / "run").folder
    rows = lines(run / "rollouts.jsonl")
    for row in rows:
        rewards = [turn["reward"] for turn in row["turns"]]
        assert rewards == [0.0] * (len(rewards) - 1) + [row["reward"]]
    assert len({row["reward"] for row in rows}) > 1
