"""Keep rules: when a step has sampled enough groups, and which of them it trains on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from vlrft.advantages import MIN_SPREAD
from vlrft.config import strict
from vlrft.schema import Group
from vlrft.schema.ranges import Positive, Share

ROUNDING = 1e-9  # of share · size: 0.55 · 100 is above 55


def is_valid(group: Group) -> bool:
    """Whether the group's rewards differ, so that a group estimator gives it an advantage."""
    return max(group.rewards) - min(group.rewards) > MIN_SPREAD


@runtime_checkable
class Keep(Protocol):
    """A keep rule: `enough` ends the sampling of a step, `choose` picks the step's groups from all attempts."""

    @property
    def max_attempts(self) -> int: ...

    def enough(self, valid: int, size: int) -> bool: ...

    def choose(self, groups: Sequence[Group], size: int) -> list[Group]:
        """At most `size` of the sampled groups; none: no step is taken."""
        ...


@strict
class KeepAll:
    """One attempt; every group is kept."""

    @property
    def max_attempts(self) -> int:
        return 1

    def enough(self, valid: int, size: int) -> bool:
        return True

    def choose(self, groups: Sequence[Group], size: int) -> list[Group]:
        return list(groups[:size])


@strict
class Accumulate:
    """GPG's accumulation (arXiv 2504.02546, Algorithm 1): sample `size` new prompts per attempt until
    valid ≥ share · size or `max_attempts`; train on the first `size` valid groups.

    A step with fewer valid groups is filled with groups of equal rewards, which are not trained on, so that the number P of groups stays the same.
    """

    share: Share = 0.6
    """β_th."""
    max_attempts: Positive = 20

    def enough(self, valid: int, size: int) -> bool:
        return valid >= self.share * size - ROUNDING

    def choose(self, groups: Sequence[Group], size: int) -> list[Group]:
        valid = [g for g in groups if is_valid(g)]
        rest = [g for g in groups if not is_valid(g)]
        return (valid + rest)[:size]


@strict
class DynamicSampling:
    """DAPO's dynamic sampling (arXiv 2503.14476, section 3.2): new prompts until `size` groups have rewards that
    differ, or `max_attempts`; only such groups are trained on, even if they are fewer than `size`. With one attempt it
    only drops the others, as Reinforce-Rej does (arXiv 2504.11343)."""

    max_attempts: Positive = 10

    def enough(self, valid: int, size: int) -> bool:
        return valid >= size

    def choose(self, groups: Sequence[Group], size: int) -> list[Group]:
        return [g for g in groups if is_valid(g)][:size]


KEEPS: Mapping[str, type[Keep]] = {
    "all": KeepAll,
    "accumulate": Accumulate,
    "dynamic_sampling": DynamicSampling,
}
