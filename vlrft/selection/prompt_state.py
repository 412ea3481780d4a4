"""The history of each prompt over a run: how often it was played, and its latest rewards and lengths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean, pvariance
from typing import Any

from vlrft.schema import Group, Rollout
from vlrft.selection.group_filters import is_valid
from vlrft.selection.injection import own_rollouts


@dataclass(frozen=True, kw_only=True)
class PromptRecord:
    """One prompt's history."""

    played: int = 0
    reward: float = 0.0  # mean of its last group
    stale: int = 0  # consecutive groups without reward spread
    variance: float = 0.0  # of its last group's rewards (population)
    length: float = 0.0  # mean of its last group's rollouts, in tokens after the prompt
    seen: int = 0  # rollouts so far
    total: float = 0.0  # sum of their rewards
    notes: Mapping[str, float] = field(default_factory=dict[str, float])
    """The note of an advantage step at the prompt's last visit."""


class PromptStates:
    """Sample id -> PromptRecord, updated with every group that is played, checkpointed with the run."""

    def __init__(self) -> None:
        self.records: dict[str, PromptRecord] = {}

    def observe(self, groups: Iterable[Group]) -> None:
        for group in map(own_rollouts, groups):
            old = self.records.get(group.sample.id, PromptRecord())
            self.records[group.sample.id] = PromptRecord(
                played=old.played + 1,
                reward=fmean(group.rewards),
                stale=0 if is_valid(group) else old.stale + 1,
                variance=pvariance(group.rewards),
                length=fmean(map(_length, group.rollouts)),
                seen=old.seen + len(group.rollouts),
                total=old.total + sum(group.rewards),
                notes=old.notes,
            )

    def note(self, names: Sequence[str], notes: Sequence[Mapping[str, float]]) -> None:
        """Keeps what advantage steps noted about prompts. Of one that is there twice, the later notes stay."""
        for name, noted in zip(names, notes, strict=True):
            if noted:
                old = self.records.get(name, PromptRecord())
                self.records[name] = replace(old, notes={**old.notes, **noted})

    def notes(self, names: Sequence[str]) -> list[Mapping[str, float]]:
        """The numbers noted about each prompt at its last visit."""
        return [self.records[n].notes if n in self.records else {} for n in names]

    def copy(self) -> PromptStates:
        """The history so far, which later groups do not change."""
        states = PromptStates()
        states.records = dict(self.records)
        return states

    def lengths(self, names: Sequence[str], default: float) -> list[float]:
        """Expected tokens of a rollout of each prompt: its last length, else the mean over all prompts played so far, else `default`."""
        records = self.records
        mean = fmean(r.length for r in records.values()) if records else default
        return [records[name].length if name in records else mean for name in names]

    def stale_share(self) -> float:
        """Share of the prompts played so far whose last group had equal rewards."""
        records = self.records.values()
        return sum(r.stale > 0 for r in records) / len(records) if records else 0.0

    def state_dict(self) -> dict[str, dict[str, Any]]:
        return {key: asdict(record) for key, record in self.records.items()}

    def load_state_dict(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        self.records = {
            key: PromptRecord(
                played=int(r["played"]),
                reward=float(r["reward"]),
                stale=int(r["stale"]),
                variance=float(r["variance"]),
                length=float(r["length"]),
                seen=int(r.get("seen", 0)),  # not in checkpoints of earlier versions
                total=float(r.get("total", 0.0)),
                notes=dict(r.get("notes", {})),
            )
            for key, r in state.items()
        }


def _length(rollout: Rollout) -> int:
    return sum(len(piece.ids) for row in rollout.rows for piece in row.pieces)
