"""What is remembered of each prompt over a run: how often it was played and how it went."""

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
    length: float = 0.0  # mean of its last group's rollouts, in tokens behind their prompts


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

    def lengths(self, names: Sequence[str], default: float) -> list[float]:
        """How long a rollout of each prompt probably is: as last time, or as those of other prompts, or `default`."""
        met = self.records
        usual = fmean(r.length for r in met.values()) if met else default
        return [met[name].length if name in met else usual for name in names]

    def stale_share(self) -> float:
        """Share of the prompts met so far whose last group taught nothing."""
        met = self.records.values()
        return sum(r.stale > 0 for r in met) / len(met) if met else 0.0

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
