"""Rollouts of earlier policies, mixed into fresh groups of the same prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import PositiveInt

from vlrft.config import strict
from vlrft.schema import Group, Piece, Rollout, TrainingRow
from vlrft.schema.errors import ReplayError
from vlrft.selection.rollout_filters import widest


@strict
class Replay:
    """Each group gets up to `add` stored rollouts of its prompt besides its fresh ones.

    GVPO's historical mix (arXiv 2504.19599, section 3.3) and RePO (arXiv 2506.09340): stored rollouts keep the log-probs
    that they were sampled with; methods with an importance ratio use those, GVPO takes new ones (`Needs.replay_old`).
    """

    add: PositiveInt = 4
    capacity: PositiveInt = 16
    """Rollouts kept of a prompt; the oldest go first."""
    pick: Literal["recent", "reward", "variance"] = "recent"
    """RePO's strategies: the latest, those with the highest rewards (the latest of equals), those whose rewards differ
    most; with `add` = `capacity` all three are its full-scope strategy."""


class ReplayStore:
    """Sample id -> its latest rollouts. Plain values, so that it stands in a checkpoint."""

    def __init__(self, rule: Replay) -> None:
        self.rule = rule
        self.kept: dict[str, list[dict[str, Any]]] = {}

    def mix(self, groups: Sequence[Group]) -> list[Group]:
        """The groups with stored rollouts added; their fresh ones are then stored. Raises ReplayError for rollouts of
        several turns, for plays of an environment and for answers that were given, not sampled."""
        mixed: list[Group] = []
        for group in groups:
            stored = self._pick(self.kept.get(group.sample.id, []))
            added = tuple(_restored(one, group.rollouts[0]) for one in stored)
            mixed.append(replace(group, rollouts=group.rollouts + added))
        for group in groups:
            own = self.kept.setdefault(group.sample.id, [])
            own.extend(_plain(r) for r in group.rollouts)
            del own[: -self.rule.capacity]
        return mixed

    def _pick(self, stored: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if self.rule.pick == "variance":
            rewards = [float(one["reward"]) for one in stored]
            return [stored[i] for i in widest(rewards, self.rule.add)]
        if self.rule.pick == "reward":
            stored = sorted(stored, key=lambda one: float(one["reward"]))
        return stored[-self.rule.add :]

    def state_dict(self) -> dict[str, list[dict[str, Any]]]:
        return {key: [dict(one) for one in stored] for key, stored in self.kept.items()}

    def load_state_dict(self, state: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self.kept = {key: [dict(one) for one in stored] for key, stored in state.items()}


def _plain(rollout: Rollout) -> dict[str, Any]:
    if len(rollout.rows) != 1 or len(rollout.rows[0].pieces) != 1:
        raise ReplayError(f"{rollout.sample.id}: replay stores single-turn rollouts only")
    piece = rollout.rows[0].pieces[0]
    if piece.turn is not None:
        raise ReplayError(f"{rollout.sample.id}: replay stores no plays of an environment")
    if len(piece.logprobs) != len(piece.ids):  # a ratio would take it for the present policy's own
        raise ReplayError(
            f"{rollout.sample.id}: replay stores sampled answers, this one has no log-probs"
        )
    return {
        "ids": list(piece.ids),
        "text": piece.text,
        "logprobs": list(piece.logprobs),
        "finish": piece.finish,
        "reward": rollout.reward,
        "scores": dict(rollout.scores),
        "policy_step": rollout.policy_step,
    }


def _restored(stored: Mapping[str, Any], fresh: Rollout) -> Rollout:
    """A stored rollout behind the prompt of a fresh one."""
    piece = Piece(
        ids=tuple(stored["ids"]),
        text=stored["text"],
        logprobs=tuple(stored["logprobs"]),
        finish=stored["finish"],
    )
    return Rollout(
        sample=fresh.sample,
        rows=(TrainingRow(prompt=fresh.rows[0].prompt, pieces=(piece,)),),
        reward=stored["reward"],
        scores=dict(stored["scores"]),
        policy_step=stored["policy_step"],
        origin="replay",
    )
