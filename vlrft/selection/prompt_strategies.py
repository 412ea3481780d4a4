"""What a sampler thinks of prompts, given how they went: which it passes over, which it draws more often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Protocol, runtime_checkable

from pydantic import Field

from vlrft.config import UnitInterval, strict
from vlrft.selection.prompt_state import PromptRecord

ROUNDING = 1e-9  # a weighted sum of scores may miss full marks by it
LEAST, MOST = 0.05, 0.95  # where GRESO's chances stay while they adapt, as in the authors' code


@runtime_checkable
class PromptStrategy(Protocol):
    """A frozen dataclass. Its fields are its settings and what it has learned: a checkpoint keeps them."""

    def skip(self, record: PromptRecord, chance: float) -> bool:
        """Whether the prompt is passed over in its turn; `chance` is uniform in [0, 1)."""
        ...

    def weighted_share(self) -> float:
        """Share of the prompts that are drawn by weight and not in their turn."""
        ...

    def adapted(self, records: Sequence[PromptRecord]) -> PromptStrategy:
        """What it becomes after a draw whose prompts went as the records say; of the same kind."""
        ...


@strict
class Uniform:
    """Every prompt once an epoch."""

    def skip(self, record: PromptRecord, chance: float) -> bool:
        return False

    def weighted_share(self) -> float:
        return 0.0

    def adapted(self, records: Sequence[PromptRecord]) -> Uniform:
        return self


@strict
class VarianceAware:
    """A share of each batch is drawn with weights ∝ the variance of the prompt's last rewards, p(1 − p) for right and
    wrong; the others uniformly (MMR1, arXiv 2509.21268; its diversity term is left out, as in the released settings).
    Prompts that were not played yet have the largest weight there is."""

    share: UnitInterval = 0.5

    def skip(self, record: PromptRecord, chance: float) -> bool:
        return False

    def weighted_share(self) -> float:
        return self.share

    def adapted(self, records: Sequence[PromptRecord]) -> VarianceAware:
        return self


@strict
class HistoryResampling:
    """Prompts whose last group was all right are passed over (SRPO, arXiv 2504.14286, section 3.4); those that are all
    wrong stay, for the policy may come to solve them."""

    solved: float = 1.0
    """A group without spread whose mean reward is at least this was all right."""

    def skip(self, record: PromptRecord, chance: float) -> bool:
        return record.stale > 0 and record.reward >= self.solved - ROUNDING

    def weighted_share(self) -> float:
        return 0.0

    def adapted(self, records: Sequence[PromptRecord]) -> HistoryResampling:
        return self


Chance = Annotated[float, Field(gt=0, le=1)]


@strict
class Greso:
    """A prompt whose last z groups taught nothing is passed over with probability 1 − p^z (GRESO, arXiv 2506.02177,
    Eq. 4); p differs for groups that were all right and all wrong.

    From the second epoch on each p goes down by `rate` after a draw with at least its share of such groups, a third of
    `stale` for all right and two thirds for all wrong, and up after one with fewer. The authors do so once a step, here
    it is once a draw: a step that refills has several.
    """

    explore_solved: Chance = 0.5
    explore_failed: Chance = 0.5
    solved: float = 1.0
    stale: UnitInterval = 0.25
    """Share of a draw that may teach nothing."""
    rate: UnitInterval = 0.01
    """0: each p stays what it is."""

    def skip(self, record: PromptRecord, chance: float) -> bool:
        p = self.explore_solved if self._right(record) else self.explore_failed
        return chance >= p**record.stale

    def weighted_share(self) -> float:
        return 0.0

    def adapted(self, records: Sequence[PromptRecord]) -> Greso:
        flat = [r for r in records if r.stale > 0]
        right = sum(map(self._right, flat))
        many = right >= self.stale / 3 * len(records)
        many_wrong = len(flat) - right >= self.stale * 2 / 3 * len(records)
        return replace(
            self,
            explore_solved=_moved(self.explore_solved, -self.rate if many else self.rate),
            explore_failed=_moved(self.explore_failed, -self.rate if many_wrong else self.rate),
        )

    def _right(self, record: PromptRecord) -> bool:
        return record.reward >= self.solved - ROUNDING


def _moved(chance: float, by: float) -> float:
    """Within [LEAST, MOST]; a chance that was set beyond them is not pulled in."""
    return max(chance + by, min(chance, LEAST)) if by < 0 else min(chance + by, max(chance, MOST))


PROMPT_STRATEGIES: Mapping[str, type[PromptStrategy]] = {
    "uniform": Uniform,
    "variance_aware": VarianceAware,
    "history": HistoryResampling,
    "greso": Greso,
}
