"""The history of each prompt over a run: how often it was played, and its latest rewards and lengths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, pvariance

from vlrft.schema import Group, Rollout
from vlrft.selection.group_filters import is_valid


@dataclass(frozen=True, kw_only=True)
class PromptRecord:
    """One prompt's history."""

    played: int = 0
    reward: float = 0.0  # mean of its last group
    stale: int = 0  # consecutive groups without reward spread
    variance: float = 0.0  # of its last group's rewards (population)
    length: float = 0.0  # mean of its last group's rollouts, in tokens after the prompt


class PromptStates:
    """Sample id -> PromptRecord, updated with every group that is played, checkpointed with the run."""

    def __init__(self) -> None:
        self.records: dict[str, PromptRecord] = {}

    def observe(self, groups: Iterable[Group]) -> None:
        for group in groups:
            old = self.records.get(group.sample.id, PromptRecord())
            self.records[group.sample.id] = PromptRecord(
                played=old.played + 1,
                reward=fmean(group.rewards),
                stale=0 if is_valid(group) else old.stale + 1,
                variance=pvariance(group.rewards),
                length=fmean(map(_length, group.rollouts)),
            )

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

    def state_dict(self) -> dict[str, dict[str, float]]:
        return {key: asdict(record) for key, record in self.records.items()}

    def load_state_dict(self, state: Mapping[str, Mapping[str, float]]) -> None:
        self.records = {
            key: PromptRecord(
                played=int(r["played"]),
                reward=float(r["reward"]),
                stale=int(r["stale"]),
                variance=float(r["variance"]),
                length=float(r["length"]),
            )
            for key, r in state.items()
        }


def _length(rollout: Rollout) -> int:
    return sum(len(piece.ids) for row in rollout.rows for piece in row.pieces)
