"""Which tensors are read together when sharded weights are gathered a part at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import nn

from vlrft.policy.policy_weights import Needs


def group_names(
    needs: Needs, units: Sequence[Iterable[nn.Parameter]]
) -> dict[tuple[int, ...], list[str]]:
    """The names by the units, as indices, that hold the parameters which they need. `units`: parts of a model that are gathered
    together, as a layer; a parameter of several counts as the last one's."""
    unit_of = {id(parameter): k for k, unit in enumerate(units) for parameter in unit}
    groups: dict[tuple[int, ...], list[str]] = {}
    for name, parameters in needs.items():
        held_by = sorted({unit_of[id(parameter)] for parameter in parameters})
        groups.setdefault(tuple(held_by), []).append(name)
    return groups
