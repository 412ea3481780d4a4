"""Memory of one rank under FSDP2, by formula; `benchmarks/ranks/rank_memory.py` measures it.

n trained numbers on N ranks, kept in c bytes (4 where weights are float32 or have float32 copies); W bytes of all weights;
s bytes of a number in the model's dtype. A unit is what is gathered at once: a layer, or the embeddings, the head and
everything else outside the layers (the root).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vlrft.memory.rank_memory import GradientMemory, RankMemory
from vlrft.memory.shapes import ModelShape

NOTHING = GradientMemory(fresh=0, summed=0, in_place=True)


@dataclass(frozen=True, kw_only=True)
class UnitSizes:
    """Bytes in the model's dtype."""

    layer: int  # the largest layer
    root: int
    trained_root: int  # of the embeddings and the head, where they are trained

    @property
    def largest(self) -> int:
        return max(self.layer, self.root)


def fsdp_memory(
    model: ModelShape, ranks: int, *, copies: bool, reshard: bool, offload: bool, reduced: int
) -> RankMemory:
    """`copies`: half-precision weights are kept in float32; `reshard`: layers are freed after their forward pass; `reduced`:
    bytes of a number while gradients are summed over the ranks.

    A pass holds the root and, of the layers, the running one, the one before it and a buffer that is gathered ahead; or
    all layers. Gradients of the root are reduced when the backward pass ends, through a buffer of `reduced` bytes for
    each number; those of a layer when its backward pass ends.
    """
    weights, units = model.weights, unit_sizes(model)
    offload = offload and model.gpu  # on a CPU the shards are where they would be
    s, n = model.element, sum(weights.sizes)
    shard = -(-n // ranks)
    kept = 4 if copies and weights.half else weights.trained // n
    shards = kept * shard + -(-(weights.total - weights.trained) // ranks)
    moments, gradients = 2 * kept * shard, kept * shard
    sharded = {"weights": shards, "optimiser moments": moments}
    summed = GradientMemory(fresh=gradients, summed=gradients, in_place=True)
    gathered = units.root + 3 * units.layer if reshard else weights.total + units.layer
    reducing = units.trained_root // s * (reduced + kept // ranks)
    everything = {"gathered weights": weights.total}
    return RankMemory(
        held={"weights": 0} if offload else sharded,
        gradients=NOTHING if offload else summed,
        passes={"gathered weights": gathered},
        backward={"gradients": units.layer * weights.trained // weights.total},
        reducing={"communication buckets": reducing} if ranks > 1 else {},
        step={} if offload else {"gradients": gradients},
        self_check=everything,
        sampling=everything,
        reading={"gathered weights": units.largest},
        host={**sharded, "gradients": gradients} if offload else {},
        **_saving(model, units, kept),
    )


def unit_sizes(model: ModelShape) -> UnitSizes:
    """A decoder layer has H (2A + 2K + 3I) numbers, a vision layer 4W² and 2 or 3 times W I; biases and norms are in the
    root's part."""
    d, t, s = model.decoder, model.tower, model.element
    of_layers, largest = d.of_layers * s, d.largest_layer * s
    if t is not None:
        vision = t.width * (4 * t.width + (3 if t.gated else 2) * t.inner) * s
        of_layers, largest = of_layers + vision * t.layers, max(largest, vision)
    matrix = d.hidden * d.vocab
    return UnitSizes(
        layer=largest,
        root=max(model.weights.base - of_layers, 0),
        trained_root=model.weights.sizes.count(matrix) * matrix * s,
    )


def _saving(model: ModelShape, units: UnitSizes, kept: int) -> dict[str, Any]:
    """The weights are gathered a unit at a time and the optimiser a parameter at a time; rank 0 keeps all of it in host
    memory."""
    weights, s = model.weights, model.element
    n, largest = sum(weights.sizes), max(weights.sizes)
    copied = kept > s  # float32 copies are part of the checkpoint, in addition to the weights
    return {
        "gathering": {"gathered weights": max(2 * units.largest, 2 * kept * largest)},
        "saving": {
            "weights": weights.total,
            **({"float32 copies": kept * n} if copied else {}),
            "optimiser moments": 2 * kept * n,
        },
    }
