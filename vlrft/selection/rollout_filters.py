"""Rules that select the rollouts of a group to train on. The others leave the step: they are not run and not counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from vlrft.advantages.rows import RowAdvantages, rollout_means
from vlrft.config import strict
from vlrft.schema import Group
from vlrft.schema.errors import ConfigError
from vlrft.schema.ranges import FiniteFloat, Positive, Share

ROUNDING = 1e-9  # of share · G: 0.55 · 100 is above 55

Advantages = Sequence[float]
"""One number per rollout [G]."""

Estimate = Callable[[Sequence[Group]], list[RowAdvantages]]
"""Groups [P] -> their advantages [P]."""


@runtime_checkable
class Selector(Protocol):
    """A rule that selects rollouts of a group, before their advantages are estimated or from their advantages."""

    before_advantages: ClassVar[bool]
    """Whether advantages are estimated after the selection, from the selected rollouts only."""

    def choose(self, group: Group, advantages: Advantages) -> list[int]:
        """Indices of the rollouts that stay, in order; `advantages` is empty where they are not estimated yet."""
        ...


@runtime_checkable
class FixedSize(Protocol):
    """A selector that keeps a number of rollouts which only depends on the size of the group."""

    def count(self, size: int) -> int:
        """The rollouts that it keeps of a group of `size`."""
        ...


Selectors = Selector | tuple[Selector, ...] | None
"""One rule, several that run in their order, or none."""


@strict
class Cppo:
    """The share of the group with the largest |A| (CPPO, arXiv 2503.22342, Eq. 9); statistics over the whole group.

    Of G rollouts ⌈share · G⌉ stay: the authors' trainer drops ⌊(1 − share) · G⌋. Equal ones stay in order of rollout. The
    authors select among the completions of a rank, which are whole groups; here among those of each group.
    """

    share: Share = 0.5

    before_advantages: ClassVar[bool] = False

    def count(self, size: int) -> int:
        return max(math.ceil(self.share * size - ROUNDING), 1)

    def choose(self, group: Group, advantages: Advantages) -> list[int]:
        largest = sorted(range(len(advantages)), key=lambda i: (-abs(advantages[i]), i))
        return sorted(largest[: self.count(len(advantages))])


@strict
class Pods:
    """The rollouts whose rewards have the largest variance: some of the lowest and some of the highest (PODS, arXiv
    2504.13818, Algorithm 2); statistics over them only."""

    keep: Positive = 4

    before_advantages: ClassVar[bool] = True

    def count(self, size: int) -> int:
        return min(self.keep, size)

    def choose(self, group: Group, advantages: Advantages) -> list[int]:
        return widest(group.rewards, self.keep)


def widest(rewards: Sequence[float], count: int) -> list[int]:
    """Indices of the `count` rewards with the largest variance, in order: the best split of lowest and highest."""
    size = len(rewards)
    if size <= count:
        return list(range(size))
    values = np.array(rewards)
    rising = np.argsort(values, kind="stable")
    splits = [np.r_[rising[:low], rising[size - count + low :]] for low in range(count + 1)]
    best = max(splits, key=lambda rows: float(values[rows].var()))
    return sorted(int(i) for i in best)


@strict
class Gfpo:
    """The shortest rollouts, or those with the most reward per token (GFPO, arXiv 2508.09726, Algorithm 1); statistics
    over them only. In the paper the others stay in the token count; here they are left out of it."""

    keep: Positive = 4
    by: Literal["length", "reward_per_token"] = "length"

    before_advantages: ClassVar[bool] = True

    def count(self, size: int) -> int:
        return min(self.keep, size)

    def choose(self, group: Group, advantages: Advantages) -> list[int]:
        def rank(i: int) -> tuple[float, int]:
            rollout = group.rollouts[i]
            if self.by == "length":
                return float(rollout.tokens), i
            return -rollout.reward / max(rollout.tokens, 1), i

        return sorted(sorted(range(len(group.rollouts)), key=rank)[: self.keep])


@strict
class Positives:
    """Rollouts that earn at least `threshold` (RAFT, arXiv 2304.06767; arXiv 2504.11343)."""

    threshold: FiniteFloat = 1.0

    before_advantages: ClassVar[bool] = True

    def choose(self, group: Group, advantages: Advantages) -> list[int]:
        return [i for i, reward in enumerate(group.rewards) if reward >= self.threshold - 1e-9]


@strict
class DropTruncated:
    """Rollouts that were not truncated (DAPO's overlong filtering, arXiv 2503.14476, section 3.4); statistics over the
    whole group."""

    before_advantages: ClassVar[bool] = False

    def choose(self, group: Group, advantages: Advantages) -> list[int]:
        return [i for i, rollout in enumerate(group.rollouts) if not rollout.truncated]


SELECTORS: Mapping[str, type[Cppo | Pods | Gfpo | Positives | DropTruncated]] = {
    "cppo": Cppo,
    "pods": Pods,
    "gfpo": Gfpo,
    "positives": Positives,
    "drop_truncated": DropTruncated,
}


def select(
    selector: Selector, groups: Sequence[Group], advantages: Sequence[Advantages] = ()
) -> list[list[int]]:
    """Indices of the rollouts of each group that stay [P][≤ G]."""
    by_group = advantages or [()] * len(groups)
    return [selector.choose(g, a) for g, a in zip(groups, by_group, strict=True)]


def subset(group: Group, rollouts: Sequence[int]) -> Group:
    """The group with these rollouts only."""
    return replace(group, rollouts=tuple(group.rollouts[i] for i in rollouts))


def select_and_estimate(
    groups: Sequence[Group],
    selectors: Selectors,
    estimate: Estimate,
    *,
    min_estimated: int = 1,
    min_trained: int = 1,
) -> tuple[list[Group], list[RowAdvantages]]:
    """The groups with the rollouts that the selectors keep one after the other, and their advantages.

    Advantages are estimated once, after the last selector that runs before them. A group that keeps fewer rollouts than the
    estimate (`min_estimated`) or the loss (`min_trained`) compares is dropped.
    """
    chain = chain_of(selectors)
    left = list(groups)
    for selector in chain:
        if selector.before_advantages:
            indices = select(selector, left)
            left = [
                subset(g, i)
                for g, i in zip(left, indices, strict=True)
                if len(i) >= max(min_estimated, min_trained)
            ]
    advantages = estimate(left)
    for selector in chain:
        if not selector.before_advantages:
            indices = select(selector, left, rollout_means(advantages))
            kept = [
                (g, a, i)
                for g, a, i in zip(left, advantages, indices, strict=True)
                if len(i) >= min_trained
            ]
            left = [subset(g, i) for g, _, i in kept]
            advantages = [[a[k] for k in i] for _, a, i in kept]
    return left, advantages


def chain_of(selectors: Selectors) -> tuple[Selector, ...]:
    """The selectors in their order. Raises ConfigError where one that runs before the advantages follows one that reads
    them."""
    if selectors is None:
        return ()
    chain = selectors if isinstance(selectors, tuple) else (selectors,)
    for first, second in pairwise(chain):
        if second.before_advantages and not first.before_advantages:
            names = type(first).__name__.lower(), type(second).__name__.lower()
            raise ConfigError(
                [
                    f"algorithm.select: {names[1]} selects before advantages are estimated, and {names[0]} after it: "
                    f"put {names[1]} before {names[0]}"
                ]
            )
    return chain
