"""Keep rules: when a step has enough groups, and which of them it trains on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Protocol, runtime_checkable

from pydantic import Field, PositiveInt

from vlrft.advantages import MIN_SPREAD
from vlrft.config import strict
from vlrft.schema import Group


def is_valid(group: Group) -> bool:
    """Whether the group's rewards differ, that is, whether a group estimator learns anything from it."""
    return max(group.rewards) - min(group.rewards) > MIN_SPREAD


@runtime_checkable
class Keep(Protocol):
    """A keep rule: `enough` ends the sampling of a step, `choose` picks the step's groups from all attempts."""

    @property
    def max_attempts(self) -> int: ...

    def enough(self, valid: int, size: int) -> bool: ...

    def choose(self, groups: Sequence[Group], size: int) -> list[Group]:
        """At most `size` of them; none when nothing that was sampled is worth a step."""
        ...


@strict
class KeepAll:
    """One attempt; every group stays."""

    @property
    def max_attempts(self) -> int:
        return 1

    def enough(self, valid: int, size: int) -> bool:
        return True

    def choose(self, groups: Sequence[Group], size: int) -> list[Group]:
        return list(groups[:size])


@strict
class Accumulate:
    """GPG's accumulation (arXiv 2504.02546, Algorithm 1): sample `size` fresh prompts an attempt until
    valid ≥ share · size or `max_attempts`; train on the first `size` valid groups.

    A step that ends with fewer is filled up with groups that teach nothing: they cost no training and keep P.
    """

    share: Annotated[float, Field(gt=0, le=1)] = 0.6
    """β_th."""
    max_attempts: PositiveInt = 20

    def enough(self, valid: int, size: int) -> bool:
        return valid >= self.share * size

    def choose(self, groups: Sequence[Group], size: int) -> list[Group]:
        valid = [g for g in groups if is_valid(g)]
        rest = [g for g in groups if not is_valid(g)]
        return (valid + rest)[:size]


@strict
class DynamicSampling:
    """DAPO's dynamic sampling (arXiv 2503.14476, section 3.2): fresh prompts until `size` groups have rewards that
    differ or `max_attempts` are used up; only such groups are trained on, fewer when there are no more. With one attempt
    it only drops the others, as Reinforce-Rej does (arXiv 2504.11343)."""

    max_attempts: PositiveInt = 10

    def enough(self, valid: int, size: int) -> bool:
        return valid >= size

    def choose(self, groups: Sequence[Group], size: int) -> list[Group]:
        return [g for g in groups if is_valid(g)][:size]


KEEPS: Mapping[str, type[KeepAll | Accumulate | DynamicSampling]] = {
    "all": KeepAll,
    "accumulate": Accumulate,
    "dynamic_sampling": DynamicSampling,
}
