"""The input of an advantage estimator: one optimiser step as arrays by rollout, by turn and by token."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vlrft.advantages.grouped import Bools, Floats, Ints, dense_labels
from vlrft.advantages.reward_components import components_of
from vlrft.plugins.names import unknown_name
from vlrft.schema import Group, Piece, RewardError, Rollout, Turn
from vlrft.schema.errors import AdvantageError

FREE_SIGNALS = frozenset({"id", "logprob"})  # known without asking the rollout engine
NO_TURN = Turn()  # of a sampled piece outside an environment


@dataclass(frozen=True, kw_only=True)
class EstimatorInput:
    """R rollouts and their B turns. A turn is the answer to one observation; a single-turn rollout has one.

    Steps return a changed copy. The advantage of token t of turn b, of rollout i, is
    (values[i] + by_turn[b]) · token_factors[b][t] + by_token[b][t].
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
    imputed: Mapping[str, Floats] = field(default_factory=dict[str, Floats])
    """Component -> what the reward counts where the component's reward failed [R]; 0 elsewhere."""
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
    by_token: tuple[Floats, ...] | None = None  # [B][tokens of the turn] added last
    signals: Mapping[str, tuple[Floats, ...]] = field(default_factory=dict[str, tuple[Floats, ...]])
    """Name -> a number for each token [B][tokens of the turn], NaN where the policy did not sample the tokens; those that
    the steps ask for. `id` is the token itself, `logprob` its log-prob as it was sampled."""

    progress: float = 0.0
    """The share of the stage's steps that are done, in [0, 1)."""
    known: Mapping[str, Floats] = field(default_factory=dict[str, Floats])
    """Numbers in the samples' `info` [R]; NaN where a sample has none of that name."""
    history: Mapping[str, Floats] = field(default_factory=dict[str, Floats])
    """The notes of steps at the last visit of each rollout's prompt [R]; NaN without a visit."""
    notes: Mapping[str, Floats] = field(default_factory=dict[str, Floats])
    """The notes of steps for the prompts' next visit [R]; the mean over a sample's rollouts is kept, and checkpointed."""

    def key(self, name: str) -> Ints:
        """The labels [R] of a key; `step` has all rollouts in one group. Raises AdvantageError for an unknown key."""
        if name == "step":
            return np.zeros(len(self.values), dtype=np.int64)
        if name not in self.keys:
            raise AdvantageError(unknown_name("group key", name, [*self.keys, "step"]))
        return self.keys[name]

    def counted(self, name: str) -> Floats:
        """A component as the reward counts it [R]: where its reward failed, as the group's mean; 0 where it does not apply."""
        return np.nan_to_num(self.scores[name]) + self.imputed.get(name, 0.0)

    def past(self, name: str, default: float) -> Floats:
        """The number noted under this name at the last visit of each rollout's prompt [R]; `default` where nothing was."""
        return np.nan_to_num(self.history.get(name, np.full(len(self.values), np.nan)), nan=default)

    def note(self, notes: Mapping[str, Floats]) -> EstimatorInput:
        """A copy that also notes these numbers [R] for the next visit of each rollout's prompt."""
        return replace(self, notes={**self.notes, **notes})

    def known_of(self, name: str, default: float | None = None) -> Floats:
        """A number of each rollout's sample [R]. Raises AdvantageError where a sample has none of that name and there is no
        `default`."""
        nothing = np.full(len(self.values), np.nan)
        if default is not None:
            return np.nan_to_num(self.known.get(name, nothing), nan=default)
        if name not in self.known:
            raise AdvantageError(unknown_name("number in the samples' info", name, self.known))
        values = self.known[name]
        if np.isnan(values).any():
            rollout = int(np.flatnonzero(np.isnan(values))[0])
            raise AdvantageError(
                f"the sample of rollout {rollout} of the step has no number {name} in its info"
            )
        return values

    def scale_tokens(self, factors: Sequence[Floats]) -> EstimatorInput:
        """A copy whose token factors are multiplied by `factors` [B][tokens of the turn]."""
        before = self.token_factors or tuple(np.ones(int(n)) for n in self.turn_tokens)
        product = tuple(a * b for a, b in zip(before, factors, strict=True))
        return replace(self, token_factors=product)

    def add_to_tokens(self, terms: Sequence[Floats]) -> EstimatorInput:
        """A copy with `terms` [B][tokens of the turn] added to the tokens' advantages."""
        before = self.by_token or tuple(np.zeros(int(n)) for n in self.turn_tokens)
        return replace(self, by_token=tuple(a + b for a, b in zip(before, terms, strict=True)))

    def signal(self, name: str) -> tuple[Floats, ...]:
        """The numbers of each token [B][tokens of the turn]. Raises AdvantageError for a signal that is not there, and for
        tokens that the policy did not sample, such as those of a gold answer."""
        if name not in self.signals:
            raise AdvantageError(unknown_name("token signal", name, self.signals))
        values = self.signals[name]
        for b, (tokens, count) in enumerate(zip(values, self.turn_tokens, strict=True)):
            if len(tokens) != count:
                raise AdvantageError(f"{len(tokens)} {name} signals for a turn of {count} tokens")
            if not np.isfinite(tokens).all():
                raise AdvantageError(
                    f"the signal {name} of rollout {int(self.rollouts[b])} of the step is not finite: the policy did not "
                    "sample it"
                )
        return values

    def mean_signal(self, name: str) -> Floats:
        """The mean of the signal over each entry's tokens [R]; 0 where it has none. Raises as `signal` does."""
        sums = np.zeros(len(self.values))
        np.add.at(sums, self.rollouts, [float(tokens.sum()) for tokens in self.signal(name)])
        counts = np.bincount(self.rollouts, self.turn_tokens, minlength=len(sums))
        means: Floats = sums / counts.clip(min=1)
        return means


def estimator_input(
    groups: Sequence[Group],
    weights: Mapping[str, float],
    max_tokens: int,
    greedy: Sequence[float] | None = None,
    signals: Collection[str] = (),
    *,
    progress: float = 0.0,
    history: Sequence[Mapping[str, float]] = (),
) -> EstimatorInput:
    """The input made of a step's groups. Keys: `sample` is the group, and each tag that all samples have is one more.

    `weights`: reward name -> weight; a score `name/part` has the weight of `name`. `greedy` [P]: the reward of a greedy
    rollout of each group's sample. `signals`: those of tokens that the estimator reads. `progress`: the share of the
    stage's steps that are done. `history` [P]: what was noted at the last visit of each prompt; empty: nothing. Raises
    RewardError, naming the sample, for a reward that is not finite.
    """
    for k, g in enumerate(groups):
        if not np.isfinite(g.rewards).all():
            raise RewardError(f"{g.sample.id}: the reward is not finite: {g.rewards}")
        if greedy is not None and not math.isfinite(greedy[k]):
            raise RewardError(f"{g.sample.id}: the greedy answer's reward is {greedy[k]}")
    rollouts = [r for g in groups for r in g.rollouts]
    index = np.repeat(np.arange(len(groups)), [len(g.rollouts) for g in groups])
    rewards = np.array([r.reward for r in rollouts], dtype=np.float64)
    components = components_of(rollouts, weights)
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
        scores=components.scores,
        imputed=components.imputed,
        weights=components.weights,
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
        signals={name: tuple(_signal(p, name) for _, _, p, _ in turns) for name in signals},
        progress=progress,
        known=_columns([_numbers(g.sample.info) for g in groups], index),
        history=_columns(history, index),
    )


def _columns(rows: Sequence[Mapping[str, float]], index: Ints) -> dict[str, Floats]:
    """Numbers by name, of the group of each rollout [R]; NaN where a group has none."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {
        name: np.array([row.get(name, math.nan) for row in rows], dtype=np.float64)[index]
        for name in names
    }


def _numbers(info: Mapping[str, Any]) -> dict[str, float]:
    """The entries that are finite numbers."""
    pairs = ((k, v) for k, v in info.items() if isinstance(v, int | float))
    return {k: float(v) for k, v in pairs if not isinstance(v, bool) and math.isfinite(v)}


def _signal(piece: Piece, name: str) -> Floats:
    """The numbers of a piece's tokens [T], NaN where they were not sampled."""
    values = {"id": piece.ids, "logprob": piece.logprobs, **piece.signals}.get(name, ())
    if len(values) != len(piece.ids):
        return np.full(len(piece.ids), np.nan)
    return np.array(values, dtype=np.float64)


def _tag_keys(rollouts: Sequence[Rollout]) -> dict[str, Ints]:
    tags = [r.sample.tags for r in rollouts]
    return {
        name: dense_labels([t[name] for t in tags])
        for name in (tags[0] if tags else ())
        if all(name in t for t in tags)
    }
