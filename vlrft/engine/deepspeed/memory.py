"""Memory of one rank under DeepSpeed 0.19, by formula; `benchmarks/ranks/rank_memory.py` measures it.

n trained numbers of s bytes on N ranks; B elements of a bucket; W bytes of all weights. DeepSpeed keeps float32 copies of
float32 weights too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vlrft.memory.rank_memory import GradientMemory, RankMemory
from vlrft.memory.shapes import ModelShape

# DeepSpeed's defaults.
MAX_LIVE = 1_000_000_000  # gathered elements that a pass of ZeRO-3 keeps
PREFETCHED = 50_000_000  # elements that are gathered ahead of use
STEP_GROUP = 1_000_000_000  # numbers that a step of ZeRO-3 updates at once
UNSHARDED = 100_000  # elements up to which ZeRO-3 does not shard a parameter
NOTHING = GradientMemory(fresh=0, summed=0, in_place=True)


def zero_memory(
    zero: Mapping[str, Any], model: ModelShape, ranks: int, by_layer: bool
) -> RankMemory:
    """Memory under the settings `zero` of `zero_optimization`. `by_layer`: ZeRO-3 samples with one layer's weights at a time."""
    bucket = int(zero["reduce_bucket_size"])
    offload = zero.get("offload_optimizer", {}).get("device", "none") != "none"
    if zero["stage"] == 3:
        memory = _stage_3(zero, model, ranks, bucket, offload)
        return replace(memory, sampling=_layer(model)) if by_layer else memory
    if offload:
        return _offloaded_memory(model, ranks, bucket)
    if zero["stage"] == 2:
        return _stage_2(model, ranks, bucket)
    return _stage_1(model, ranks, bucket)


def _stage_1(model: ModelShape, ranks: int, bucket: int) -> RankMemory:
    """ZeRO-1. bfloat16: float32 sums of 4n all along, and autograd's 2n until the step. Float32: in the step gradients go
    through a bucket, 4B, and those of the rank's shard are copied, 4n / N."""
    n, shard = _shard_sizes(model, ranks)
    if model.element == 2:
        gradients = GradientMemory(fresh=2 * n, summed=2 * n, in_place=True)
        held = {**_unsharded_weights(model, shard), "gradients": 4 * n}
        return RankMemory(
            held=held,
            gradients=gradients,
            moments_from_start=True,
            step={"gradients": 2 * n},
            **_saving(model),
        )
    copied = min(4 * shard, max(4 * (n - bucket), 0))
    return RankMemory(
        held=_unsharded_weights(model, shard),
        gradients=GradientMemory(fresh=4 * n, summed=4 * n, in_place=True),
        moments_from_start=True,
        backward={"communication buckets": 4 * bucket},
        step={"gradients": 4 * n + copied, "communication buckets": 4 * bucket},
        **_saving(model),
    )


def _stage_2(model: ModelShape, ranks: int, bucket: int) -> RankMemory:
    """ZeRO-2: sums of 4n / N. Float32: also the gradients of the micro-batch, and in the step a flat copy."""
    n, shard = _shard_sizes(model, ranks)
    float32 = model.element == 4
    return RankMemory(
        held=_unsharded_weights(model, shard),
        gradients=GradientMemory(fresh=4 * shard, summed=4 * shard, in_place=not float32),
        moments_from_start=True,
        step={"gradients": (8 if float32 else 4) * shard},
        **_reduction(model, n, bucket),
        **_saving(model),
    )


def _offloaded_memory(model: ModelShape, ranks: int, bucket: int) -> RankMemory:
    """ZeRO-1 and 2 with the optimiser in host memory, with its gradients, 4n / N, and the updated weights, sn / N. bfloat16
    gradients are summed on the device, 4n / N; float32 ones in host memory."""
    n, shard = _shard_sizes(model, ranks)
    s, largest = model.element, max(model.weights.sizes)
    float32 = s == 4
    summed = 4 * shard  # gradients
    return RankMemory(
        held={"weights": model.weights.total, "communication buckets": s * largest},
        gradients=NOTHING
        if float32
        else GradientMemory(fresh=summed, summed=summed, in_place=True),
        moments_from_start=True,
        step={} if float32 else {"gradients": summed},
        host={
            "weights": s * (shard + largest),
            "float32 copies": 4 * shard,
            "gradients": 2 * summed if float32 else summed,
            "optimiser moments": 8 * shard,
        },
        **_reduction(model, n, bucket),
        **_saving(model),
    )


def _stage_3(
    zero: Mapping[str, Any], model: ModelShape, ranks: int, bucket: int, offload: bool
) -> RankMemory:
    """ZeRO-3: W / N and the parameters that are not sharded; a bucket, 4B, and gradients, 4n / N, all along. A pass gathers
    weights and keeps them up to a bound; a step copies gradients, 4n / N."""
    n, shard = _shard_sizes(model, ranks)
    s, total = model.element, model.weights.total
    bound = int(zero.get("stage3_param_persistence_threshold", UNSHARDED))
    small = s * sum(size for size in model.weights.sizes if size <= bound)
    live = int(zero.get("stage3_max_live_parameters", MAX_LIVE))
    ahead = int(zero.get("stage3_prefetch_bucket_size", PREFETCHED))
    weights = {"weights": -(-total // ranks) + small}
    optimiser = {
        "float32 copies": 4 * shard,
        "gradients": 4 * shard,
        "optimiser moments": 8 * shard,
    }
    copied = 4 * min(shard, int(zero.get("sub_group_size", STEP_GROUP)))
    host = {**optimiser, "gradients": 8 * shard} if offload else {}
    return RankMemory(
        held={**weights, **({} if offload else optimiser), "communication buckets": 4 * bucket},
        gradients=NOTHING,
        moments_from_start=True,
        passes={"gathered weights": min(total, s * live) + min(total, s * ahead)},
        reducing={"communication buckets": 8 * min(bucket, n)},
        reduce_from=_first_reduction(n, bucket),
        step={} if offload else {"gradients": copied},
        self_check={"gathered weights": total - small},
        sampling={"gathered weights": total - small},
        reading=_layer(model),
        host=host,
        **_saving(model, sharded=True),
    )


def _layer(model: ModelShape) -> dict[str, int]:
    """Weights gathered at once: a layer's H (2A + 2K + 3I) or the embeddings' H V."""
    d = model.decoder
    return {"gathered weights": model.element * max(d.largest_layer, d.hidden * d.vocab)}


def _shard_sizes(model: ModelShape, ranks: int) -> tuple[int, int]:
    """Trained numbers n, and those of one rank, n / N rounded up."""
    n = sum(model.weights.sizes)
    return n, -(-n // ranks)


def _unsharded_weights(model: ModelShape, shard: int) -> dict[str, int]:
    """All weights, and a rank's shard of the optimiser, 12n / N."""
    return {
        "weights": model.weights.total,
        "float32 copies": 4 * shard,
        "optimiser moments": 8 * shard,
    }


def _reduction(model: ModelShape, n: int, bucket: int) -> dict[str, Any]:
    """Gradients go into a bucket, sB, and are reduced through a copy, in bfloat16 through a second one in float32: 8B in all."""
    return {
        "backward": {"communication buckets": model.element * bucket},
        "reducing": {"communication buckets": 8 * min(bucket, n) - model.element * min(bucket, n)},
        "reduce_from": _first_reduction(n, bucket),
    }


def _first_reduction(n: int, bucket: int) -> float:
    """The share of a backward pass after which a bucket is full for the first time."""
    return min(bucket / n, 1.0)


def _saving(model: ModelShape, *, sharded: bool = False) -> dict[str, Any]:
    """The optimiser's tensors are gathered one parameter at a time, 12 bytes per element (8 where weights are float32), and kept
    by rank 0 in host memory, as are sharded weights."""
    weights = model.weights
    n, largest = sum(weights.sizes), max(weights.sizes)
    copies = {"float32 copies": 4} if model.element == 2 else {}
    per_number = {**copies, "optimiser moments": 8}
    return {
        "gathering": {part: width * largest for part, width in per_number.items()},
        "saving": {
            "weights": weights.total if sharded else 0,
            **{part: width * n for part, width in per_number.items()},
        },
    }
