"""What a step reports about its rollouts, its advantages and its time."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from vlrft.advantages.rows import RowAdvantages
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.schema import Group
from vlrft.scoring.rewards import WeightedReward
from vlrft.selection.collect import Collected
from vlrft.tracing.phases import phase
from vlrft.trainer.batch import Batch


class Timer:
    """Seconds of each named part of a step."""

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
    found: Collected,
    advantages: Sequence[RowAdvantages],
    batches: Sequence[Batch],
    figures: Mapping[str, float],
    rewards: Sequence[WeightedReward],
    timer: Timer,
    ranks: Ranks = ALONE,
) -> dict[str, float]:
    """Everything a line of metrics.jsonl holds, in a fixed order; of all ranks together."""
    taught = [row for group in advantages for own in group for row in own if len(row)]
    played = [r for g in found.sampled for r in g.rollouts]
    given = bool(played) and all(r.origin == "injected" for r in played)
    return {
        **figures,
        **({} if given else _group_metrics(found, rewards)),
        "advantage/min": min((float(a.min()) for a in taught), default=0.0),
        "advantage/max": max((float(a.max()) for a in taught), default=0.0),
        **_length_metrics(found.sampled),
        **_play_metrics(found.sampled),
        **_cost_metrics(found, batches, timer, ranks),
    }


def _group_metrics(found: Collected, named: Sequence[WeightedReward]) -> dict[str, float]:
    """How many groups teach, and what they earned where any is left."""
    taught = {"groups/valid_share": found.valid_share, "groups/attempts": found.attempts}
    return {**_reward_metrics(found.sampled, named), **taught} if found.sampled else taught


def _reward_metrics(groups: Sequence[Group], named: Sequence[WeightedReward]) -> dict[str, float]:
    """Statistics over every rollout that was sampled, and the share of groups that are all or none solved."""
    weights = {r.name: r.weight for r in named}
    rollouts = [r for g in groups for r in g.rollouts]
    rewards = np.array([r.reward for r in rollouts])
    out = {"reward/mean": float(rewards.mean()), "reward/std": float(rewards.std())}
    for name in sorted({name for r in rollouts for name in r.scores}):
        values = [v for r in rollouts if (v := r.scores.get(name)) is not None]
        kind = "reward" if name.split("/")[0] in weights else "play"  # of the environment
        if values:
            out[f"{kind}/{name}"] = float(np.mean(values))

    for name in (r.name for r in named if r.on_error == "zero"):
        out[f"reward/{name}/errors"] = float(sum(name in r.errors for r in rollouts))

    def solved(group: Group) -> list[bool]:
        return [
            r.reward
            >= sum(weights.get(k.split("/")[0], 0.0) for k, v in r.scores.items() if v is not None)
            - 1e-6
            for r in group.rollouts
        ]

    if not weights:  # what an environment pays has no known best
        return out
    marks = [solved(g) for g in groups]
    out["groups/solved_all"] = float(np.mean([all(m) for m in marks]))
    out["groups/solved_none"] = float(np.mean([not any(m) for m in marks]))
    return out


def _length_metrics(groups: Sequence[Group]) -> dict[str, float]:
    rollouts = [r for g in groups for r in g.rollouts]
    lengths = [r.tokens for r in rollouts]
    if not lengths:
        return {}
    return {
        "length/mean": float(np.mean(lengths)),
        "length/max": float(max(lengths)),
        "length/truncated": float(np.mean([r.truncated for r in rollouts])),
    }


def _play_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Of plays with an environment: turns, how they ended, and what was said that was no action."""
    plays = [r for g in groups for r in g.rollouts if r.turns]
    if not plays:
        return {}
    turns = [t for r in plays for t in r.turns]
    return {
        "env/turns": len(turns) / len(plays),
        "env/valid": float(np.mean([t.valid for t in turns])),
        "env/cut": float(np.mean([r.ended in ("turns", "tokens") for r in plays])),
        "length/turn_mean": sum(r.tokens for r in plays) / len(turns),
    }


def _cost_metrics(
    found: Collected, batches: Sequence[Batch], timer: Timer, ranks: Ranks
) -> dict[str, float]:
    seconds = timer.seconds
    rollouts = [r for g in found.sampled for r in g.rollouts if r.origin != "injected"]
    sampled = sum(r.tokens for r in rollouts)
    trained = ranks.sum_count(sum(b.tokens for b in batches))
    if torch.cuda.is_available():
        peak = torch.cuda.max_memory_allocated()
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "speed/rollout_tokens_s": sampled / max(seconds["rollout"], 1e-9),
        "speed/update_tokens_s": trained / max(seconds["update"], 1e-9),
        "time/rollout_s": seconds["rollout"],
        "time/update_s": seconds["update"],
        "time/step_s": time.perf_counter() - timer.start,
        "memory/peak_gb": peak / 1e9,
    }
