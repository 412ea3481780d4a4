"""Rollouts of earlier policies, mixed into fresh groups of the same prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from vlrft.config import strict
from vlrft.schema import Group, Piece, Rollout, TrainingRow
from vlrft.schema.errors import ReplayError
from vlrft.schema.ranges import Positive
from vlrft.selection.rollout_filters import widest


@strict
class Replay:
    """Adds up to `add` stored rollouts of its prompt to each group.

    GVPO's historical mix (arXiv 2504.19599, section 3.3) and RePO (arXiv 2506.09340): stored rollouts keep the log-probs
    that they were sampled with; algorithms with an importance ratio use those, GVPO computes new ones (`Needs.replay_old`).
    """

    add: Positive = 4
    capacity: Positive = 16
    """Rollouts kept per prompt; the oldest are dropped first."""
    pick: Literal["recent", "reward", "variance"] = "recent"
    """RePO's strategies: the latest rollouts, those with the highest rewards (among equal rewards the latest), those whose rewards
    differ most. With `add` = `capacity` all three are its full-scope strategy."""

    def __post_init__(self) -> None:
        if self.add > self.capacity and self.add != Replay.add:
            raise ValueError(
                f"add: {self.add}, but capacity: {self.capacity} is all that is stored of a prompt; use at most "
                f"{self.capacity}, or a larger capacity"
            )


class ReplayStore:
    """Sample id -> its latest rollouts, as plain values that a checkpoint can keep."""

    def __init__(self, rule: Replay) -> None:
        self.rule = rule
        self.stored: dict[str, list[dict[str, Any]]] = {}

    def mix(self, groups: Sequence[Group]) -> list[Group]:
        """The groups with stored rollouts added; their new rollouts are then stored. Raises ReplayError for rollouts of
        several turns, for episodes of an environment and for demonstrations."""
        mixed: list[Group] = []
        for group in groups:
            picked = self._pick(self.stored.get(group.sample.id, []))
            added = tuple(_load(entry, group.rollouts[0]) for entry in picked)
            mixed.append(replace(group, rollouts=group.rollouts + added))
        for group in groups:
            entries = self.stored.setdefault(group.sample.id, [])
            entries.extend(_dump(r) for r in group.rollouts)
            del entries[: -self.rule.capacity]
        return mixed

    def _pick(self, stored: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if self.rule.pick == "variance":
            rewards = [float(entry["reward"]) for entry in stored]
            return [stored[i] for i in widest(rewards, self.rule.add)]
        if self.rule.pick == "reward":
            stored = sorted(stored, key=lambda entry: float(entry["reward"]))
        return stored[-self.rule.add :]

    def state_dict(self) -> dict[str, list[dict[str, Any]]]:
        return {key: [dict(entry) for entry in stored] for key, stored in self.stored.items()}

    def load_state_dict(self, state: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self.stored = {key: [dict(entry) for entry in stored] for key, stored in state.items()}


def _dump(rollout: Rollout) -> dict[str, Any]:
    if len(rollout.rows) != 1 or len(rollout.rows[0].pieces) != 1:
        raise ReplayError(f"{rollout.sample.id}: replay stores single-turn rollouts only")
    piece = rollout.rows[0].pieces[0]
    if piece.turn is not None:
        raise ReplayError(f"{rollout.sample.id}: replay stores no episodes of an environment")
    if len(piece.logprobs) != len(piece.ids):  # a ratio would use the current policy's log-probs
        raise ReplayError(
            f"{rollout.sample.id}: replay stores sampled rollouts, this one has no log-probs"
        )
    return {
        "ids": list(piece.ids),
        "text": piece.text,
        "logprobs": list(piece.logprobs),
        "finish": piece.finish,
        "reward": rollout.reward,
        "scores": dict(rollout.scores),
        "policy_step": rollout.policy_step,
        **({"imputed": dict(rollout.imputed)} if rollout.imputed else {}),
        **({"policy_steps": list(piece.policy_steps)} if piece.policy_steps else {}),
        **({"signals": {k: list(v) for k, v in piece.signals.items()}} if piece.signals else {}),
    }


def _load(stored: Mapping[str, Any], fresh: Rollout) -> Rollout:
    """A stored rollout, with the prompt of a new one."""
    piece = Piece(
        ids=tuple(stored["ids"]),
        text=stored["text"],
        logprobs=tuple(stored["logprobs"]),
        finish=stored["finish"],
        policy_steps=tuple(stored.get("policy_steps", ())),
        signals={k: tuple(v) for k, v in stored.get("signals", {}).items()},
    )
    return Rollout(
        sample=fresh.sample,
        rows=(TrainingRow(prompt=fresh.rows[0].prompt, pieces=(piece,)),),
        reward=stored["reward"],
        scores=dict(stored["scores"]),
        imputed=dict(stored.get("imputed", {})),
        policy_step=stored["policy_step"],
        origin="replay",
    )
