"""What an estimator sees of one optimiser step: numbers by rollout, by turn and by token. No model, no text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from vlrft.advantages.grouped import Bools, Floats, Ints, dense
from vlrft.plugins.names import unknown_name
from vlrft.schema import Group, RewardError, Rollout, Turn
from vlrft.schema.errors import AdvantageError

REST = "environment"  # the component of what a reward holds beyond its weighted scores
NO_TURN = Turn()  # of what no environment answered
ROUNDING = 1e-9  # a rest below this is rounding of a weighted sum


@dataclass(frozen=True, kw_only=True)
class EstimatorInput:
    """R rollouts and their B turns: what was sampled behind one observation. A single-turn rollout has one.

    Steps return a changed copy. The advantage of token t of turn b, of rollout i, is
    (values[i] + by_turn[b]) · shape[b][t].
    """

    values: Floats  # [R] the summed reward at first, the advantage in the end
    keys: Mapping[str, Ints]  # name -> [R] dense labels; "sample": the group
    rollouts: Ints  # [B] rollout of each turn
    turn_tokens: Ints  # [B] action tokens
    tokens: Ints  # [R] action tokens
    truncated: Bools  # [R]
    max_tokens: int = 0  # the configured longest completion; 0: not known
    scores: Mapping[str, Floats] = field(default_factory=dict[str, Floats])
    """Reward components kept apart, [R] each; NaN where one does not apply."""
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    """Of each component; one without a weight counts nothing."""
    greedy: Floats | None = None  # [R] reward of the greedy rollout of the same sample
    step_rewards: Floats  # [B] without penalties
    penalties: Floats  # [B] taken off the rollout's reward for what was no action
    anchors: Ints  # [B] dense labels: equal for turns of a group that answer the same observation
    places: Ints  # [B] the turn's place in its episode
    episodes: Ints  # [B] dense labels: equal for the turns of one play
    by_turn: Floats | None = None  # [B] added on top of the rollout's value
    shape: tuple[Floats, ...] | None = None  # [B][tokens of the turn] factors

    def key(self, name: str) -> Ints:
        """The labels [R] of a key; `step` puts all rollouts into one group. Raises AdvantageError."""
        if name == "step":
            return np.zeros(len(self.values), dtype=np.int64)
        if name not in self.keys:
            raise AdvantageError(unknown_name("group key", name, [*self.keys, "step"]))
        return self.keys[name]

    def shaped(self, factors: Sequence[Floats]) -> EstimatorInput:
        """With factors [B][tokens of the turn] on top of those there are."""
        before = self.shape or tuple(np.ones(int(n)) for n in self.turn_tokens)
        return replace(self, shape=tuple(a * b for a, b in zip(before, factors, strict=True)))


def estimator_input(
    groups: Sequence[Group],
    weights: Mapping[str, float],
    max_tokens: int,
    greedy: Sequence[float] | None = None,
) -> EstimatorInput:
    """The step's groups in order. Keys: `sample` is the group, and each tag that all samples have gives one more.

    `weights`: of the named rewards; a score `name/part` has the weight of `name`. `greedy`: a reward a group [P].
    Raises RewardError for a reward that is no finite number; names the sample.
    """
    for k, g in enumerate(groups):
        if not np.isfinite(g.rewards).all():
            raise RewardError(f"{g.sample.id}: the reward is not finite: {g.rewards}")
        if greedy is not None and not math.isfinite(greedy[k]):
            raise RewardError(f"{g.sample.id}: the greedy answer's reward is {greedy[k]}")
    rollouts = [r for g in groups for r in g.rollouts]
    index = np.repeat(np.arange(len(groups)), [len(g.rollouts) for g in groups])
    rewards = np.array([r.reward for r in rollouts], dtype=np.float64)
    scores, used = _components(rollouts, rewards, weights)
    turns = [
        (i, k, p, p.turn or NO_TURN)
        for i, r in enumerate(rollouts)
        for k, p in enumerate(r.sampled_pieces)
    ]
    anchors: list[object] = [
        (i, k, None) if t.anchor is None else (int(index[i]), t.anchor) for i, k, _, t in turns
    ]
    owners = np.array([i for i, *_ in turns], dtype=np.int64)
    return EstimatorInput(
        values=rewards,
        keys={**_tag_keys(rollouts), "sample": index.astype(np.int64)},
        scores=scores,
        weights=used,
        tokens=np.array([r.tokens for r in rollouts], dtype=np.int64),
        truncated=np.array([r.truncated for r in rollouts], dtype=np.bool_),
        max_tokens=max_tokens,
        greedy=None if greedy is None else np.asarray(greedy, dtype=np.float64)[index],
        rollouts=owners,
        turn_tokens=np.array([len(p.ids) for _, _, p, _ in turns], dtype=np.int64),
        step_rewards=np.array([t.reward for *_, t in turns], dtype=np.float64),
        penalties=np.array([t.penalty for *_, t in turns], dtype=np.float64),
        anchors=dense(anchors),
        places=np.array([k for _, k, *_ in turns], dtype=np.int64),
        episodes=owners,
    )


def _components(
    rollouts: Sequence[Rollout], rewards: Floats, weights: Mapping[str, float]
) -> tuple[dict[str, Floats], dict[str, float]]:
    """The scores [R] by name, NaN where one does not apply, and their weights. What a reward holds beyond them, such as
    an environment's own, is a component too."""
    scores: dict[str, Floats] = {}
    used: dict[str, float] = {}
    for name in dict.fromkeys(name for r in rollouts for name in r.scores):
        given = [math.nan if (v := r.scores.get(name)) is None else float(v) for r in rollouts]
        scores[name] = np.array([v if math.isfinite(v) else math.nan for v in given])
        if (weight := weights.get(name.split("/")[0])) is not None:
            used[name] = weight
            for r, v in zip(rollouts, given, strict=True):
                if r.scores.get(name) is not None and not math.isfinite(v):
                    raise RewardError(f"{r.sample.id}: the reward {name} is not finite: {v}")
    rest = rewards - sum((w * np.nan_to_num(scores[n]) for n, w in used.items()), 0.0)
    if REST not in scores and bool((np.abs(rest) > ROUNDING).any()):
        scores[REST], used[REST] = rest, 1.0
    return scores, used


def _tag_keys(rollouts: Sequence[Rollout]) -> dict[str, Ints]:
    tags = [r.sample.tags for r in rollouts]
    return {
        name: dense([t[name] for t in tags])
        for name in (tags[0] if tags else ())
        if all(name in t for t in tags)
    }
