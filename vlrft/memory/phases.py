"""All phases of a stage, put together into its plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vlrft.memory.limits import FEATURE_BYTES, PIXEL_CACHE_BYTES
from vlrft.memory.plan import MemoryPhase, MemoryPlan, Moments, find_peak
from vlrft.memory.rank_memory import PartBytes, RankMemory, add_parts, merge_host_memory
from vlrft.memory.shapes import ModelShape, PromptSize
from vlrft.memory.update_phase import self_check_phase, update_phase
from vlrft.memory.workload import RolloutWork, StepWork

UNKNOWN_IMAGES = 2**40  # more than any cache holds

RolloutMemory = Callable[[ModelShape, RolloutWork], Moments]
"""Memory of a rollout engine while it samples, in addition to that of the rest of the run."""


def plan(
    model: ModelShape, work: StepWork, rank: RankMemory, rollout_memory: RolloutMemory | None
) -> MemoryPlan:
    """Every phase of a stage after its first step, when the optimiser has its moments. `rollout_memory` None: the rollout
    engine has no memory model. Rollout and evaluation are left out, and it is taken to read the weights after each step."""
    rank = add_unpacking(rank if model.gpu else merge_host_memory(rank), model)
    if work.background:
        rank = add_copy(rank, model, work)
    held = held_throughout(model, work, rank)
    while_sampling = add_parts(held, rank.sampling)
    phases = []
    if work.self_check:
        before = add_parts(held, rank.self_check)
        if not rank.moments_from_start:
            before["optimiser moments"] = 0
        phases.append(self_check_phase(model, work, before))
    if work.rollout is not None and rollout_memory is not None:
        phases.append(
            sampling_phase("rollout", rollout_memory(model, work.rollout), while_sampling)
        )
    phases.append(update_phase(model, work, rank, held))
    if rollout_memory is None:
        phases.append(handover_phase(model, rank, held))
    if work.evaluation is not None and rollout_memory is not None:
        images = pixel_bytes(model, work.evaluation.prompts, work)
        moments = rollout_memory(model, work.evaluation)
        phases.append(sampling_phase("evaluation", moments, while_sampling | images))
    on_host = [replace(phase, host=rank.host) for phase in phases]
    return MemoryPlan((*on_host, save_phase(model, rank, held)))


def add_unpacking(rank: RankMemory, model: ModelShape) -> RankMemory:
    """The memory of a rank with 4-bit weights: each pass unpacks one weight of n numbers at a time, n s, and the float32
    scales of its blocks, 4 n / 64."""
    n = model.weights.packed
    if not n:
        return rank
    unpacked = {"unpacked weights": n * model.element + 4 * n // 64}
    return replace(
        rank,
        passes=add_parts(rank.passes, unpacked),
        sampling=add_parts(rank.sampling, unpacked),
        self_check=add_parts(rank.self_check, unpacked),
    )


def add_copy(rank: RankMemory, model: ModelShape, work: StepWork) -> RankMemory:
    """The memory of the first rank while a checkpoint is written from its copy in host memory, which may last into any phase.
    What an engine gathers of the optimiser is moved into the copy."""
    copy = {"checkpoint copy": checkpoint_size(model, work, rank)}
    rank = replace(rank, saving={k: size for k, size in rank.saving.items() if k == "weights"})
    if model.gpu:
        return replace(rank, host=add_parts(rank.host, copy))
    return replace(rank, held=add_parts(rank.held, copy))


def checkpoint_size(model: ModelShape, work: StepWork, rank: RankMemory) -> int:
    """Bytes of a checkpoint, each weight once: the plain model; adapters, as a folder of their own and in the state; the
    optimiser's state; a reference that may move, in float32 where it is an average."""
    weights = model.weights
    adapters = weights.total - weights.base
    optimiser = add_parts(rank.saving, rank.checkpoint)
    optimiser.pop("weights", None)  # that an engine gathers
    exact = weights.trained + (weights.half if work.averaged else 0)
    reference = exact if work.reference and not adapters else 0
    return weights.plain + 2 * adapters + sum(optimiser.values()) + reference


def held_throughout(model: ModelShape, work: StepWork, rank: RankMemory) -> dict[str, int]:
    """Allocated for the whole stage: the train engine's part, a reference's weights (unsharded on each rank; with LoRA
    the reference is the policy without adapters and has none) and the float32 copies of those that are averaged, images."""
    weights = model.weights
    lora = weights.base < weights.total
    copies = 2 * weights.half if work.averaged else 0
    reference = weights.total + copies if work.reference and not lora else 0
    others = {"reference weights": reference, **pixel_bytes(model, work.prompts, work)}
    return add_parts(rank.held, others)


def pixel_bytes(
    model: ModelShape, prompts: tuple[PromptSize, ...], work: StepWork
) -> dict[str, int]:
    """Pixels of the prompts, or of all cached images where that is more, in host memory (so none on a GPU): 4 bytes for each
    of the P patches' values; and the frames of the prompts' videos, which their samples hold. Cached features of a frozen vision
    model: P / merge rows of H elements, in each of their tensors."""
    t = model.tower
    if t is None:
        return {}
    patches = sum(prompt.patches for prompt in prompts)
    images = work.distinct_images or UNKNOWN_IMAGES
    all_patches = 0 if not prompts else patches // len(prompts) * images
    held = 2 if work.prefetch else 1  # this step's, and the next one's
    cached = min(all_patches, PIXEL_CACHE_BYTES // (t.values * 4))
    frames = held * sum(prompt.frames for prompt in prompts)
    pixels = 0 if model.gpu else max(held * patches, cached) * t.values * 4 + frames
    features = 0
    if t.gradient == "none" and not t.projector:
        rows = max(all_patches, patches) // t.merge
        features = min(rows * t.features * model.decoder.hidden * model.element, FEATURE_BYTES)
    return {"pixels and features": pixels + features}


def sampling_phase(name: str, moments: Moments, held: PartBytes) -> MemoryPhase:
    """Rollout or evaluation. `moments`: of the rollout engine; `held`: by the rest of the run."""
    return find_peak(name, {moment: add_parts(held, parts) for moment, parts in moments.items()})


def handover_phase(model: ModelShape, rank: RankMemory, held: PartBytes) -> MemoryPhase:
    """A rollout engine reads the weights, of which no more than a part is gathered at once."""
    weights = {"weights": merging_bytes(model)} if model.weights.base < model.weights.total else {}
    return find_peak("weights to sampler", {"reading": add_parts(held, rank.reading, weights)})


def save_phase(model: ModelShape, rank: RankMemory, held: PartBytes) -> MemoryPhase:
    """One merged weight with LoRA, or what the engine gathers. Files are written from the tensors themselves, one
    at a time."""
    lora = model.weights.base < model.weights.total
    merging = {"weights": merging_bytes(model)}
    moments = {
        "merging a weight" if lora else "writing": add_parts(held, merging),
        "gathering": add_parts(held, rank.gathering),
    }
    if not model.gpu:
        copies = {moment: add_parts(parts, rank.saving) for moment, parts in moments.items()}
        return find_peak("save", copies)
    host = add_parts(rank.host, rank.saving)
    return replace(find_peak("save", moments), host={k: size for k, size in host.items() if size})


def merging_bytes(model: ModelShape) -> int:
    """Merging n weights: their copy, n s, the product of the adapters, 4 n, and either the product before its scaling or, where
    the copy is added to in float32, it and the sum in float32; of 4-bit weights another copy, to compare with, n s."""
    wide = 8 if model.element >= 4 else 12
    return model.weights.adapted * (model.element + wide) + model.weights.packed * model.element
