"""The input of an advantage estimator: one optimiser step as arrays by rollout, by turn and by token."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from vlrft.advantages.grouped import Bools, Floats, Ints, dense_labels
from vlrft.plugins.names import unknown_name
from vlrft.schema import Group, RewardError, Rollout, Turn
from vlrft.schema.errors import AdvantageError

REST = (
    "environment"  # the component for the part of a reward that its weighted scores do not explain
)
NO_TURN = Turn()  # of a sampled piece outside an environment
ROUNDING = 1e-9  # a rest below this is the rounding of a weighted sum


@dataclass(frozen=True, kw_only=True)
class EstimatorInput:
    """R rollouts and their B turns. A turn is the answer to one observation; a single-turn rollout has one.

    Steps return a changed copy. The advantage of token t of turn b, of rollout i, is
    (values[i] + by_turn[b]) · token_factors[b][t].
    """

    values: Floats  # [R] the reward before the first step, the advantage after the last
    keys: Mapping[str, Ints]  # name -> [R] dense labels; "sample": the group
    rollouts: Ints  # [B] rollout of each turn
    turn_tokens: Ints  # [B] action tokens
    tokens: Ints  # [R] action tokens
    truncated: Bools  # [R]
    max_tokens: int = 0  # the longest completion that the config allows; 0: unknown
    scores: Mapping[str, Floats] = field(default_factory=dict[str, Floats])
    """Reward components, [R] each; NaN where a component does not apply."""
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    """Component -> weight; a component without a weight counts nothing."""
    greedy: Floats | None = None  # [R] reward of the greedy rollout of the same sample
    step_rewards: Floats  # [B] without penalties
    penalties: Floats  # [B] subtracted from the rollout's reward for a turn without a valid action
    anchors: Ints  # [B] labels, equal for turns of a group that answer the same observation
    places: Ints  # [B] the turn's index in its episode
    episodes: Ints  # [B] labels, equal for the turns of one episode
    by_turn: Floats | None = None  # [B] added to the rollout's value
    token_factors: tuple[Floats, ...] | None = None  # [B][tokens of the turn]

    def key(self, name: str) -> Ints:
        """The labels [R] of a key; `step` has all rollouts in one group. Raises AdvantageError for an unknown key."""
        if name == "step":
            return np.zeros(len(self.values), dtype=np.int64)
        if name not in self.keys:
            raise AdvantageError(unknown_name("group key", name, [*self.keys, "step"]))
        return self.keys[name]

    def scale_tokens(self, factors: Sequence[Floats]) -> EstimatorInput:
        """A copy whose token factors are multiplied by `factors` [B][tokens of the turn]."""
        before = self.token_factors or tuple(np.ones(int(n)) for n in self.turn_tokens)
        product = tuple(a * b for a, b in zip(before, factors, strict=True))
        return replace(self, token_factors=product)


def estimator_input(
    groups: Sequence[Group],
    weights: Mapping[str, float],
    max_tokens: int,
    greedy: Sequence[float] | None = None,
) -> EstimatorInput:
    """The input made of a step's groups. Keys: `sample` is the group, and each tag that all samples have is one more.

    `weights`: reward name -> weight; a score `name/part` has the weight of `name`. `greedy` [P]: the reward of a greedy
    rollout of each group's sample. Raises RewardError, naming the sample, for a reward that is not finite.
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
        anchors=dense_labels(anchors),
        places=np.array([k for _, k, *_ in turns], dtype=np.int64),
        episodes=owners,
    )


def _components(
    rollouts: Sequence[Rollout], rewards: Floats, weights: Mapping[str, float]
) -> tuple[dict[str, Floats], dict[str, float]]:
    """Scores [R] by name, NaN where one does not apply, and their weights. The rest of a reward, such as an environment's
    own, is a component too."""
    scores: dict[str, Floats] = {}
    used: dict[str, float] = {}
    for name in dict.fromkeys(name for r in rollouts for name in r.scores):
        column = [math.nan if (v := r.scores.get(name)) is None else float(v) for r in rollouts]
        scores[name] = np.array([v if math.isfinite(v) else math.nan for v in column])
        if (weight := weights.get(name.split("/")[0])) is not None:
            used[name] = weight
            for r, v in zip(rollouts, column, strict=True):
                if r.scores.get(name) is not None and not math.isfinite(v):
                    raise RewardError(f"{r.sample.id}: the reward {name} is not finite: {v}")
    rest = rewards - sum((w * np.nan_to_num(scores[n]) for n, w in used.items()), 0.0)
    if REST not in scores and bool((np.abs(rest) > ROUNDING).any()):
        scores[REST], used[REST] = rest, 1.0
    return scores, used


def _tag_keys(rollouts: Sequence[Rollout]) -> dict[str, Ints]:
    tags = [r.sample.tags for r in rollouts]
    return {
        name: dense_labels([t[name] for t in tags])
        for name in (tags[0] if tags else ())
        if all(name in t for t in tags)
    }
