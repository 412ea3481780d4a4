"""Gold answers that join the groups of a policy which does not find them: what joins which groups, and how."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from vlrft.advantages import MIN_SPREAD
from vlrft.config import strict
from vlrft.config.idle import refuse_idle
from vlrft.schema import Group, Rollout
from vlrft.schema.ranges import FiniteFloat


@strict
class InjectGold:
    """Puts the task's gold answer, with the reward that it earns, into a group before groups are filtered.

    GCPO, "When Contrast Fails, Go Gold", arXiv 2510.07790: where every rollout is wrong, one becomes the reference answer. Its
    source here is the abstract and a review; neither the paper's text nor its code (AchoWu/GCPO) was to be had, so which rollout
    it is, and the ratio of the answer's tokens, are ours. Its tokens have no log-probs of a sampler, so the old ones are the
    present policy's and the ratio of the first update is 1. Metrics of rewards, and what is known of a prompt's earlier rewards,
    are those of the policy's own rollouts.
    """

    when: Literal["all_wrong", "always"] = "all_wrong"
    """all_wrong: into groups in which no reward is at least `right`."""
    right: FiniteFloat = 1.0
    replace: bool = True
    """true: it takes the place of the group's last rollout; false: it is one more."""

    def __post_init__(self) -> None:
        if self.when == "always":
            refuse_idle(self, "right", beside="when: always", unless="when: all_wrong")

    def wants(self, group: Group) -> bool:
        """Whether the gold answer joins this group."""
        return self.when == "always" or max(group.rewards) < self.right - MIN_SPREAD

    def add(self, group: Group, gold: Rollout) -> Group:
        """The group with the gold answer as its last rollout."""
        kept = group.rollouts[:-1] if self.replace else group.rollouts
        return replace(group, rollouts=(*kept, gold))


def own_rollouts(group: Group) -> Group:
    """The group without injected rollouts; demonstrations, which are nothing else, stay."""
    own = tuple(r for r in group.rollouts if r.origin != "injected")
    return replace(group, rollouts=own) if own and len(own) < len(group.rollouts) else group
