"""Metrics of a step: its rewards, groups, advantages, lengths, episodes, speed, time and memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from vlrft.advantages.rows import RowAdvantages
from vlrft.distributed.phases import phase
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.schema import Group, Rollout
from vlrft.scoring.weighted import WeightedReward
from vlrft.selection.collect import Collected
from vlrft.selection.injection import own_rollouts
from vlrft.trainer.batch import Batch

ROUNDING = 1e-6  # tolerance of a comparison of a score with the best score


class Timer:
    """Seconds of each named part of a step. `with timer("rollout"): …` times a part, which is also a phase."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        with phase(name):
            yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


@phase("metrics")
def step_metrics(
    collected: Collected,
    advantages: Sequence[RowAdvantages],
    batches: Sequence[Batch],
    update_metrics: Mapping[str, float],
    rewards: Sequence[WeightedReward],
    timer: Timer,
    ranks: Ranks = ALONE,
) -> dict[str, float]:
    """The metrics of one line of metrics.jsonl, over all ranks, in a fixed order."""
    rows = [row for group in advantages for rollout in group for row in rollout if len(row)]
    rollouts = _rollouts(collected.sampled)
    demonstrations = bool(rollouts) and all(r.origin == "injected" for r in rollouts)
    return {
        **update_metrics,
        **({} if demonstrations else _group_metrics(collected, rewards)),
        "advantage/min": min((float(a.min()) for a in rows), default=0.0),
        "advantage/max": max((float(a.max()) for a in rows), default=0.0),
        **_length_metrics(rollouts),
        **_episode_metrics(rollouts),
        **_cost_metrics(rollouts, batches, timer, ranks),
    }


def _rollouts(groups: Sequence[Group]) -> list[Rollout]:
    return [rollout for group in groups for rollout in group.rollouts]


def _group_metrics(collected: Collected, rewards: Sequence[WeightedReward]) -> dict[str, float]:
    """The share of valid groups, and statistics over all sampled groups where there are any."""
    groups = {"groups/valid_share": collected.valid_share, "groups/attempts": collected.attempts}
    if not collected.sampled:
        return groups
    own = [own_rollouts(group) for group in collected.sampled]
    return {
        **_reward_metrics(_rollouts(own), rewards),
        **_solved_metrics(own, rewards),
        **groups,
    }


def _reward_metrics(
    rollouts: Sequence[Rollout], rewards: Sequence[WeightedReward]
) -> dict[str, float]:
    """Statistics of the reward, and the mean of each score: `reward/NAME` for a reward's score, `episode/NAME` for an
    environment's."""
    totals = np.array([r.reward for r in rollouts])
    metrics = {"reward/mean": float(totals.mean()), "reward/std": float(totals.std())}
    names = {reward.name for reward in rewards}
    for name in sorted({name for r in rollouts for name in r.scores}):
        values = [v for r in rollouts if (v := r.scores.get(name)) is not None]
        source = "reward" if _reward_name(name) in names else "episode"
        if values:
            metrics[f"{source}/{name}"] = float(np.mean(values))
    for name in (reward.name for reward in rewards if reward.on_error != "raise"):
        metrics[f"reward/{name}/errors"] = float(sum(name in r.errors for r in rollouts))
    for name in (reward.name for reward in rewards if reward.retries):
        metrics[f"reward/{name}/retries"] = float(sum(r.retries.get(name, 0) for r in rollouts))
    return metrics


def _reward_name(score: str) -> str:
    """The reward that gives a score: `NAME` or `NAME/PART`."""
    return score.split("/")[0]


def _solved_metrics(groups: Sequence[Group], rewards: Sequence[WeightedReward]) -> dict[str, float]:
    """The shares of groups in which all rollouts, or none, have the best score of each reward that applies.

    Empty where no reward has a positive weight, and where a score exceeds the declared best score.
    """
    best = {reward.name: reward.best_score for reward in rewards if reward.weight > 0}
    gaps = [
        [
            [
                value - best[_reward_name(name)]
                for name, value in rollout.scores.items()
                if value is not None and _reward_name(name) in best
            ]
            for rollout in group.rollouts
        ]
        for group in groups
    ]
    exceeded = any(gap > ROUNDING for group in gaps for rollout in group for gap in rollout)
    if not best or exceeded:
        return {}
    solved = [[all(gap >= -ROUNDING for gap in rollout) for rollout in group] for group in gaps]
    return {
        "groups/solved_all": float(np.mean([all(group) for group in solved])),
        "groups/solved_none": float(np.mean([not any(group) for group in solved])),
    }


def _length_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    lengths = [r.tokens for r in rollouts]
    if not lengths:
        return {}
    return {
        "length/mean": float(np.mean(lengths)),
        "length/max": float(max(lengths)),
        "length/truncated": float(np.mean([r.truncated for r in rollouts])),
    }


def _episode_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """The turns of episodes, the share of turns with a readable action, and the share of episodes that a limit ended."""
    episodes = [r for r in rollouts if r.turns]
    if not episodes:
        return {}
    turns = [t for r in episodes for t in r.turns]
    return {
        "env/turns": len(turns) / len(episodes),
        "env/valid": float(np.mean([t.valid for t in turns])),
        "env/truncated": float(np.mean([r.ended in ("turns", "tokens") for r in episodes])),
        "length/turn_mean": sum(r.tokens for r in episodes) / len(turns),
    }


def _cost_metrics(
    rollouts: Sequence[Rollout], batches: Sequence[Batch], timer: Timer, ranks: Ranks
) -> dict[str, float]:
    seconds = timer.seconds
    sampled = sum(r.tokens for r in rollouts if r.origin != "injected")
    trained = ranks.sum_count(sum(b.tokens for b in batches))
    if torch.cuda.is_available():
        peak = torch.cuda.max_memory_allocated()
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "speed/rollout_tokens_s": sampled / max(seconds.get("sampling", seconds["rollout"]), 1e-9),
        "speed/update_tokens_s": trained / max(seconds["update"], 1e-9),
        "time/rollout_s": seconds["rollout"],
        "time/update_s": seconds["update"],
        "time/step_s": time.perf_counter() - timer.start,
        "memory/peak_gb": peak / 1e9,
    }
