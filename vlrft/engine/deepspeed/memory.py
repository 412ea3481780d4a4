"""What a rank holds under DeepSpeed 0.19, by formula; `benchmarks/ranks/rank_memory.py` measures it.

n trained numbers of s bytes on N ranks; B the elements of a bucket; W bytes of all weights. Float32 copies stand behind
float32 weights too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vlrft.memory.rank_memory import GradientMemory, RankMemory
from vlrft.memory.shapes import ModelShape

# DeepSpeed's own, where a file says nothing.
LIVE = 1_000_000_000  # elements of gathered weights that a pass of ZeRO-3 keeps
AHEAD = 50_000_000  # of those that are on their way
GROUP = 1_000_000_000  # numbers that a step of ZeRO-3 moves at once
SMALL = 100_000  # elements up to which ZeRO-3 leaves a parameter whole
NOTHING = GradientMemory(fresh=0, summed=0, in_place=True)


def zero_memory(
    zero: Mapping[str, Any], model: ModelShape, ranks: int, by_layer: bool
) -> RankMemory:
    """`zero`: the settings under `zero_optimization`. `by_layer`: ZeRO-3 samples with a layer's weights at a time."""
    bucket = int(zero["reduce_bucket_size"])
    offload = zero.get("offload_optimizer", {}).get("device", "none") != "none"
    if zero["stage"] == 3:
        found = _sharded(zero, model, ranks, bucket, offload)
        return replace(found, sampling=_layer(model)) if by_layer else found
    if offload:
        return _offloaded(model, ranks, bucket)
    if zero["stage"] == 2:
        return _second(model, ranks, bucket)
    return _first(model, ranks, bucket)


def _first(model: ModelShape, ranks: int, bucket: int) -> RankMemory:
    """ZeRO-1. bfloat16: 4n of sums all along, and the 2n that autograd gives until the step; gradients of float32 go
    through a bucket in the step, 4B, those in its own part being copied, 4n / N."""
    n, shard = _numbers(model, ranks)
    if model.element == 2:
        own = GradientMemory(fresh=2 * n, summed=2 * n, in_place=True)
        held = {**_held(model, shard), "gradients": 4 * n}
        return RankMemory(
            held=held,
            gradients=own,
            moments_from_start=True,
            step={"gradients": 2 * n},
            **_saved(model),
        )
    part = min(4 * shard, max(4 * (n - bucket), 0))
    return RankMemory(
        held=_held(model, shard),
        gradients=GradientMemory(fresh=4 * n, summed=4 * n, in_place=True),
        moments_from_start=True,
        backward={"communication buckets": 4 * bucket},
        step={"gradients": 4 * n + part, "communication buckets": 4 * bucket},
        **_saved(model),
    )


def _second(model: ModelShape, ranks: int, bucket: int) -> RankMemory:
    """ZeRO-2: sums of 4n / N. Float32: a micro-batch's part beside them, and in the step a flat copy."""
    n, shard = _numbers(model, ranks)
    wide = model.element == 4
    return RankMemory(
        held=_held(model, shard),
        gradients=GradientMemory(fresh=4 * shard, summed=4 * shard, in_place=not wide),
        moments_from_start=True,
        step={"gradients": (8 if wide else 4) * shard},
        **_reduced(model, n, bucket),
        **_saved(model),
    )


def _offloaded(model: ModelShape, ranks: int, bucket: int) -> RankMemory:
    """ZeRO-1 and 2 with the optimiser in the machine's memory: its gradients, 4n / N, and what goes back to the weights,
    sn / N, beside it. bfloat16 sums gradients on the device, 4n / N; float32 the machine's memory."""
    n, shard = _numbers(model, ranks)
    s, largest = model.element, max(model.weights.sizes)
    wide = s == 4
    found = 4 * shard  # gradients as they are summed
    return RankMemory(
        held={"weights": model.weights.total, "communication buckets": s * largest},
        gradients=NOTHING if wide else GradientMemory(fresh=found, summed=found, in_place=True),
        moments_from_start=True,
        step={} if wide else {"gradients": found},
        host={
            "weights": s * (shard + largest),
            "float32 copies": 4 * shard,
            "gradients": 2 * found if wide else found,
            "optimiser moments": 8 * shard,
        },
        **_reduced(model, n, bucket),
        **_saved(model),
    )


def _sharded(
    zero: Mapping[str, Any], model: ModelShape, ranks: int, bucket: int, offload: bool
) -> RankMemory:
    """ZeRO-3: W / N and parameters that stay whole; a bucket, 4B, and gradients, 4n / N, all along. A pass gathers what it
    needs, and keeps it up to a bound; in a step gradients are copied, 4n / N."""
    n, shard = _numbers(model, ranks)
    s, total = model.element, model.weights.total
    bound = int(zero.get("stage3_param_persistence_threshold", SMALL))
    small = s * sum(size for size in model.weights.sizes if size <= bound)
    live = int(zero.get("stage3_max_live_parameters", LIVE))
    ahead = int(zero.get("stage3_prefetch_bucket_size", AHEAD))
    kept = {"weights": -(-total // ranks) + small}
    optimiser = {
        "float32 copies": 4 * shard,
        "gradients": 4 * shard,
        "optimiser moments": 8 * shard,
    }
    copied = 4 * min(shard, int(zero.get("sub_group_size", GROUP)))
    host = {**optimiser, "gradients": 8 * shard} if offload else {}
    return RankMemory(
        held={**kept, **({} if offload else optimiser), "communication buckets": 4 * bucket},
        gradients=NOTHING,
        moments_from_start=True,
        passes={"gathered weights": min(total, s * live) + min(total, s * ahead)},
        reducing={"communication buckets": 8 * min(bucket, n)},
        reduce_from=_filled(n, bucket),
        step={} if offload else {"gradients": copied},
        self_check={"gathered weights": total - small},
        sampling={"gathered weights": total - small},
        host=host,
        **_saved(model, sharded=True),
    )


def _layer(model: ModelShape) -> dict[str, int]:
    """What runs at a time: a layer's H (2A + 2K + 3I) or the embeddings' H V."""
    d = model.decoder
    layer = d.hidden * (2 * d.query + 2 * d.kv + 3 * d.inner)
    return {"gathered weights": model.element * max(layer, d.hidden * d.vocab)}


def _numbers(model: ModelShape, ranks: int) -> tuple[int, int]:
    """Trained numbers, and those of a rank."""
    n = sum(model.weights.sizes)
    return n, -(-n // ranks)


def _held(model: ModelShape, shard: int) -> dict[str, int]:
    """Whole weights, and a rank's part of the optimiser, 12n / N."""
    return {
        "weights": model.weights.total,
        "float32 copies": 4 * shard,
        "optimiser moments": 8 * shard,
    }


def _reduced(model: ModelShape, n: int, bucket: int) -> dict[str, Any]:
    """Gradients go into a bucket, sB, and out of it through a copy, in bfloat16 a second one in float32: 8B together."""
    own = model.element * bucket
    return {
        "backward": {"communication buckets": own},
        "reducing": {"communication buckets": 8 * min(bucket, n) - model.element * min(bucket, n)},
        "reduce_from": _filled(n, bucket),
    }


def _filled(n: int, bucket: int) -> float:
    return min(bucket / n, 1.0)


def _saved(model: ModelShape, *, sharded: bool = False) -> dict[str, Any]:
    """Each tensor of the optimiser is gathered, the largest parameter's 12 bytes a number at once (8, where weights are
    float32 themselves), and kept by the first rank in the machine's memory, where sharded weights go too."""
    weights = model.weights
    n, largest = sum(weights.sizes), max(weights.sizes)
    copies = {"float32 copies": 4} if model.element == 2 else {}
    each = {**copies, "optimiser moments": 8}
    resumed = weights.trained if model.gpu else 0
    return {
        "gathering": {part: width * largest for part, width in each.items()},
        "saving": {
            "weights": weights.total if sharded else resumed,
            **{part: width * n for part, width in each.items()},
        },
    }
