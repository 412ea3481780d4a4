"""Prompt strategies: which prompts are skipped and which are drawn more often, from their earlier rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Protocol, runtime_checkable

from vlrft.config import strict
from vlrft.schema.ranges import FiniteFloat, Share, UnitInterval
from vlrft.selection.prompt_state import PromptRecord
from vlrft.selection.weighted_prompts import Cures, Tracked

ROUNDING = 1e-9  # of a weighted sum of scores
# Bounds while GRESO adapts its probabilities, as in the authors' code.
MIN_CHANCE, MAX_CHANCE = 0.05, 0.95


@runtime_checkable
class PromptStrategy(Protocol):
    """A frozen dataclass. Its fields are its settings and its adapted state; a checkpoint stores them."""

    remembers: ClassVar[bool]
    """Whether a draw depends on the groups that were played before it."""

    def skip(self, record: PromptRecord, chance: float) -> bool:
        """Whether the prompt is skipped in its epoch; `chance` is uniform in [0, 1)."""
        ...

    def weighted_share(self) -> float:
        """Share of a draw that is drawn by weight, not in the epoch's order."""
        ...

    def weight(self, record: PromptRecord) -> float:
        """The weight of a prompt in that share, 0 or more; one that was not played yet has the largest of all."""
        ...

    def adapt(self, records: Sequence[PromptRecord]) -> PromptStrategy:
        """The strategy, of the same class, after a draw whose prompts now have these records."""
        ...


@strict
class Uniform:
    """Every prompt once per epoch."""

    remembers: ClassVar[bool] = False

    def skip(self, record: PromptRecord, chance: float) -> bool:
        return False

    def weighted_share(self) -> float:
        return 0.0

    def weight(self, record: PromptRecord) -> float:
        return 1.0

    def adapt(self, records: Sequence[PromptRecord]) -> Uniform:
        return self


@strict
class VarianceAware:
    """A share of each draw has weights ∝ the variance of the prompt's last rewards, p(1 − p) for rewards of 0 and 1; the rest
    is uniform (MMR1, arXiv 2509.21268; its diversity term is left out, as in the released settings). Prompts that were
    not played yet have the largest weight of all."""

    remembers: ClassVar[bool] = True

    share: UnitInterval = 0.5

    def skip(self, record: PromptRecord, chance: float) -> bool:
        return False

    def weighted_share(self) -> float:
        return self.share

    def weight(self, record: PromptRecord) -> float:
        return record.variance

    def adapt(self, records: Sequence[PromptRecord]) -> VarianceAware:
        return self


@strict
class HistoryResampling:
    """Skips prompts whose last group was all correct (SRPO, arXiv 2504.14286, section 3.4). Those that were all wrong stay:
    the policy may learn to solve them."""

    remembers: ClassVar[bool] = True

    solved: FiniteFloat = 1.0
    """A group of equal rewards was all correct if they are at least this."""

    def skip(self, record: PromptRecord, chance: float) -> bool:
        return record.stale > 0 and record.reward >= self.solved - ROUNDING

    def weighted_share(self) -> float:
        return 0.0

    def weight(self, record: PromptRecord) -> float:
        return 1.0

    def adapt(self, records: Sequence[PromptRecord]) -> HistoryResampling:
        return self


@strict
class Greso:
    """Skips a prompt whose last z groups had equal rewards with probability 1 − p^z (GRESO, arXiv 2506.02177, Eq. 4); there
    is one p for prompts that were all correct and one for those that were all wrong.

    From the second epoch on, each p is lowered by `rate` after a draw with at least its share of such groups, a third of
    `stale` for all correct and two thirds for all wrong, and raised after one with fewer. The authors adapt once per
    step; here it is once per draw, and a step that refills has several.
    """

    remembers: ClassVar[bool] = True

    explore_solved: Share = 0.5
    explore_failed: Share = 0.5
    solved: FiniteFloat = 1.0
    stale: UnitInterval = 0.25
    """Target share of a draw whose groups have equal rewards."""
    rate: UnitInterval = 0.01
    """0: each p is constant."""

    def skip(self, record: PromptRecord, chance: float) -> bool:
        p = self.explore_solved if self._is_solved(record) else self.explore_failed
        return chance >= p**record.stale

    def weighted_share(self) -> float:
        return 0.0

    def weight(self, record: PromptRecord) -> float:
        return 1.0

    def adapt(self, records: Sequence[PromptRecord]) -> Greso:
        flat = [r for r in records if r.stale > 0]
        solved = sum(map(self._is_solved, flat))
        many_solved = solved >= self.stale / 3 * len(records)
        many_failed = len(flat) - solved >= self.stale * 2 / 3 * len(records)
        return replace(
            self,
            explore_solved=_shift(self.explore_solved, -self.rate if many_solved else self.rate),
            explore_failed=_shift(self.explore_failed, -self.rate if many_failed else self.rate),
        )

    def _is_solved(self, record: PromptRecord) -> bool:
        return record.reward >= self.solved - ROUNDING


def _shift(chance: float, by: float) -> float:
    """The chance plus `by`, kept within [MIN_CHANCE, MAX_CHANCE]; one that was set outside is not pulled inside."""
    return (
        max(chance + by, min(chance, MIN_CHANCE))
        if by < 0
        else min(chance + by, max(chance, MAX_CHANCE))
    )


PROMPT_STRATEGIES: Mapping[str, type[PromptStrategy]] = {
    "uniform": Uniform,
    "variance_aware": VarianceAware,
    "history": HistoryResampling,
    "greso": Greso,
    "tracked": Tracked,
    "cures": Cures,
}
