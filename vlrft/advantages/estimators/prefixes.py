"""Credit by the tree of a group's prefixes: rollouts that begin with the same tokens share the nodes of these tokens."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.grouped import Floats, Ints, centre, min_group_of_key
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.ranges import FiniteFloat


@dataclass(frozen=True, kw_only=True)
class PrefixTree:
    """The nodes of a step's prefixes, N in all; each rollout passes each node at most once."""

    nodes: tuple[Ints, ...]  # [B][tokens of the turn] the node that a token leads to
    parents: tuple[Ints, ...]  # [B][tokens of the turn] the node that it comes from
    visits: Ints  # [N] rollouts that pass the node
    owners: tuple[Ints, ...]  # [N] those rollouts

    def mean(self, values: Floats) -> Floats:
        """The mean over the rollouts of each node [N], of values [R]."""
        return np.array([float(values[rollouts].mean()) for rollouts in self.owners])


def prefix_tree(inputs: EstimatorInput, key: str) -> PrefixTree:
    """The tree of each group of `key`. A later turn of an episode is shared where the observation before it is, too."""
    tokens = inputs.signal("id")
    numbers: dict[Hashable, int] = {}
    owners: list[list[int]] = []
    at = np.zeros(len(inputs.values), dtype=np.int64)  # of each rollout

    def enter(rollout: int, place: Hashable) -> int:
        node = numbers.setdefault(place, len(numbers))
        if node == len(owners):
            owners.append([])
        owners[node].append(rollout)
        at[rollout] = node
        return node

    for i, group in enumerate(inputs.key(key)):
        enter(i, ("group", int(group)))
    nodes, parents = ([np.zeros(0, dtype=np.int64) for _ in tokens] for _ in range(2))
    for b in np.lexsort((inputs.places, inputs.rollouts)):
        i = int(inputs.rollouts[b])
        if inputs.places[b]:
            enter(i, (int(at[i]), "shown", int(inputs.anchors[b])))
        pairs = [(int(at[i]), enter(i, (int(at[i]), float(token)))) for token in tokens[b]]
        table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        parents[b], nodes[b] = table[:, 0], table[:, 1]
    return PrefixTree(
        nodes=tuple(nodes),
        parents=tuple(parents),
        visits=np.array([len(rollouts) for rollouts in owners], dtype=np.int64),
        owners=tuple(np.array(rollouts, dtype=np.int64) for rollouts in owners),
    )


@strict
class PrefixShare:
    """Multiplies the advantage of token t of rollout i by 1 / |{j in the group : o_j and o_i agree up to and including t}|.

    λ-GRPO, "GRPO is Secretly a Process Reward Model"; released code, coli-saar/grpo-prm, lambda_grpo/utils.py,
    `InfPRMTree.loss_scales`. The factors of a node's rollouts add up to 1; rollouts that differ from the first token on are
    GRPO's; n equal ones have 1/n. Departure: the code multiplies the whole term of a token, its KL penalty included
    (lambda_grpo/trainer.py); here it is the advantage, which is the same without a penalty.
    """

    needs_signals: ClassVar[frozenset[str]] = frozenset({"id"})

    key: str = "sample"

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        tree = prefix_tree(inputs, self.key)
        return inputs.scale_tokens([1.0 / tree.visits[nodes] for nodes in tree.nodes])


@strict
class PrefixValue:
    """Adds c [V(s_{t+1}) − V(s_t)] to token t, V(s) the mean of v_j over the rollouts of the group that pass prefix s.

    TEMPO, "Exploiting Tree Structure for Credit Assignment in RL Training of LLMs", arXiv 2509.18314; from its abstract and
    reviews, without code. Only tokens at which rollouts part get anything, and a rollout's terms add up to V(its end) − μ_g;
    exactly 0 in a group of equal values. Put it after `scale`: two reviews (alphaXiv's is one) have the mean of normalised rewards;
    put first, its values are those of the rewards themselves.
    """

    needs_signals: ClassVar[frozenset[str]] = frozenset({"id"})

    coef: FiniteFloat = 1.0
    """c."""
    key: str = "sample"

    min_group = min_group_of_key

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        tree = prefix_tree(inputs, self.key)
        means = tree.mean(centre(inputs.values, inputs.key(self.key)))
        steps = zip(tree.nodes, tree.parents, strict=True)
        terms = [
            np.where(tree.visits[a] == tree.visits[b], 0.0, self.coef * (means[a] - means[b]))
            for a, b in steps
        ]
        return inputs.add_to_tokens(terms)


STEPS = {"prefix_share": PrefixShare, "prefix_value": PrefixValue}

ESTIMATORS: tuple[Estimator, ...] = ()
