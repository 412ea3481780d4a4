"""Whole plans: by hand where they are small enough, and larger for more work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.memory.shapes import DECODER, MODEL, WEIGHTS
from vlrft.config import UpdateConfig
from vlrft.engine.single import Single
from vlrft.memory import transient
from vlrft.memory.phases import checkpoint_size, held_throughout, plan, sampling_phase, save_phase
from vlrft.memory.plan import MemoryPhase, MemoryPlan, format_bytes
from vlrft.memory.rank_memory import RankMemory
from vlrft.memory.sampling_phase import sampling_logits, shared_prefix_memory
from vlrft.memory.shapes import ModelShape, PromptSize, RecurrentShape
from vlrft.memory.update_phase import update_phase
from vlrft.memory.workload import RolloutWork, StepWork

PROMPT = PromptSize(tokens=20, patches=16)
SAMPLING = RolloutWork(prompts=(PROMPT,) * 4, answers=8, tokens=10)
GREEDY = replace(SAMPLING, greedy=True)
WORK = StepWork(
    prompts=(PROMPT,) * 4,
    group=8,
    tokens=10,
    micro_tokens=10_000,
    rollout=SAMPLING,
    evaluation=SAMPLING,
    distinct_images=4,
    self_check=True,
)


def alone(model: ModelShape, *, master_weights: bool = True) -> RankMemory:
    return Single().rank_memory(UpdateConfig(master_weights=master_weights), model, 1)


def peak(model: ModelShape = MODEL, work: StepWork = WORK) -> int:
    return plan(model, work, alone(model), shared_prefix_memory).peak.total


def test_a_plan_has_every_phase_and_its_peak_is_the_largest() -> None:
    whole = plan(MODEL, WORK, alone(MODEL), shared_prefix_memory)
    names = [phase.name for phase in whole.phases]
    assert names == ["self-check", "rollout", "update", "evaluation", "save"]
    assert whole.peak.total == max(phase.total for phase in whole.phases)


def test_frames_of_videos_are_held_beside_their_pixels() -> None:
    """This step's and, where they are prepared ahead, the next one's; on a GPU they are not in its memory."""

    def held(model: ModelShape, frames: int, *, prefetch: bool) -> int:
        prompts = (replace(PROMPT, frames=frames),) * 4
        work = replace(WORK, prompts=prompts, prefetch=prefetch)
        return held_throughout(model, work, alone(model))["pixels and features"]

    def cost(model: ModelShape, *, prefetch: bool) -> int:
        return held(model, 1000, prefetch=prefetch) - held(model, 0, prefetch=prefetch)

    assert (cost(MODEL, prefetch=False), cost(MODEL, prefetch=True)) == (4000, 8000)
    assert cost(replace(MODEL, gpu=True), prefetch=True) == 0


def test_memory_of_the_whole_stage_by_hand() -> None:
    work = replace(WORK, reference=True)
    held = held_throughout(MODEL, work, alone(MODEL))
    pixels = 4 * 16 * 10 * 4
    assert held == {
        "weights": 1000,
        "float32 copies": 0,
        "reference weights": 1000,
        "optimiser moments": 2000,
        "pixels and features": pixels,
    }
    half = replace(MODEL, weights=replace(WEIGHTS, half=1000))
    averaged = replace(work, averaged=True)
    assert held_throughout(half, averaged, alone(half))["reference weights"] == 1000 + 2000
    sizes = [checkpoint_size(half, each, alone(half)) for each in (work, averaged)]
    assert sizes[1] - sizes[0] == 1000  # float32 in place of bfloat16
    lora = replace(MODEL, weights=replace(WEIGHTS, total=1100, trained=100, adapted=30))
    assert held_throughout(lora, work, alone(lora))["reference weights"] == 0
    assert save_phase(lora, alone(lora), {}).parts == {"weights": 30 * (4 + 8)}


def test_half_precision_is_trained_through_float32_copies() -> None:
    half = replace(MODEL, weights=replace(WEIGHTS, half=1000), element=2)
    held = held_throughout(half, WORK, alone(half))
    assert held["float32 copies"] == 2000
    assert held["optimiser moments"] == 4000  # as wide as the copies
    little = replace(WORK, prompts=(PromptSize(tokens=1),), group=1, tokens=1)
    heavy = replace(WEIGHTS, trained=10**9, half=10**9, embedding=0)
    wide = replace(half, weights=heavy, head_trained=False)
    phase = update_phase(wide, little, alone(wide), {})
    assert phase.parts["gradients"] == 2 * 10**9  # float32 sums of bf16 gradients
    in_place = held_throughout(half, WORK, alone(half, master_weights=False))
    assert (in_place["float32 copies"], in_place["optimiser moments"]) == (0, 2000)


def test_the_optimisers_step_holds_all_gradients() -> None:
    little = replace(WORK, prompts=(PromptSize(tokens=1),), group=1, tokens=1)
    heavy = replace(MODEL, head_trained=False)
    heavy = replace(heavy, weights=replace(WEIGHTS, trained=10**9, embedding=0))
    assert update_phase(heavy, little, alone(heavy), {}).parts["gradients"] == 10**9


def test_sampling_by_hand() -> None:
    # A token's keys and values: 2 x 4 elements x 3 layers x 4 bytes.
    narrow = replace(MODEL, decoder=replace(DECODER, vocab=10))
    keys = 96 * (4 * 20 + 32 * 10)
    ragged = shared_prefix_memory(narrow, SAMPLING)
    # Dropping rows copies at most 3/4 of them, one of the 3 layers at a time.
    assert ragged["dropping finished rows"]["keys and values"] == keys + keys * 3 // 4 // 3
    assert "refilling the cache" not in ragged
    waiting = shared_prefix_memory(narrow, replace(SAMPLING, max_rows=16))
    # Two of the four prompts at a time: the next two are run while the first two are in the cache.
    assert waiting["refilling the cache"]["keys and values"] == 96 * (2 * 2 * 20 + 16 * 10)
    steady = sampling_phase("rollout", shared_prefix_memory(MODEL, SAMPLING, ragged=False), {})
    assert steady.moment == "sampling tokens"
    assert steady.parts["keys and values"] == 96 * (4 * 20 + 32 * 10)
    assert steady.parts["logits"] == 32 * 100 * 32


def test_contexts_of_episodes_are_kept_in_the_room_that_the_cache_leaves() -> None:
    def kept(limit: int, model: ModelShape = MODEL) -> int:
        work = replace(SAMPLING, max_cache_tokens=limit)
        plain, episodes = (
            shared_prefix_memory(model, replace(work, episodes=one))["dropping finished rows"]
            for one in (False, True)
        )
        return episodes["keys and values"] - plain["keys and values"]

    tokens = 4 * 20 + 32 * 10
    assert kept(10**6) == 96 * tokens
    assert kept(tokens + 7) == 96 * 7
    assert kept(tokens) == 0
    recurrent = RecurrentShape(
        layers=1, key_heads=1, key_dim=4, value_heads=1, value_dim=4, kernel=2
    )
    assert kept(10**6, replace(MODEL, decoder=replace(DECODER, recurrent=recurrent))) == 0


def test_logits_are_held_a_chunk_at_a_time() -> None:
    wide = replace(MODEL, decoder=replace(DECODER, vocab=2**16))
    assert transient.chunk_bytes(wide, 100) == 100 * 2**16 * 4
    assert transient.chunk_bytes(wide, 10**6) == 2**24 * 4
    assert transient.chunk_bytes(replace(wide, gpu=True), 10**6) == 2**27 * 4
    assert transient.logits_forward(wide, 100) == 2 * transient.chunk_bytes(wide, 100)
    assert transient.logits_backward(wide, 10**6) == 2**24 * 4
    half = replace(wide, element=2)
    assert transient.logits_forward(half, 10**6) == 2 * 2**24 * 4
    assert transient.logits_backward(half, 10**6) == 2**24 * (4 + 2)
    assert sampling_logits(wide, GREEDY, 2) == 2 * 2**16 * 12
    assert sampling_logits(half, GREEDY, 2) == 2 * 2**16 * 10


@pytest.mark.parametrize(
    "more",
    [
        replace(WORK, prompts=(replace(PROMPT, tokens=40),) * 4),
        replace(WORK, prompts=(replace(PROMPT, patches=64),) * 4),
        replace(WORK, tokens=20),
        replace(WORK, group=16),
        replace(WORK, reference=True),
    ],
    ids=["prompt", "image", "completion", "group", "reference"],
)
def test_more_work_takes_more(more: StepWork) -> None:
    assert peak(work=more) > peak()


@pytest.mark.parametrize(
    "larger",
    [
        replace(MODEL, decoder=replace(DECODER, hidden=16)),
        replace(MODEL, decoder=replace(DECODER, layers=4)),
        replace(MODEL, decoder=replace(DECODER, inner=32)),
        replace(MODEL, decoder=replace(DECODER, vocab=1000)),
        replace(MODEL, decoder=replace(DECODER, attention="eager")),
    ],
    ids=["hidden", "layers", "inner", "vocab", "eager"],
)
def test_a_larger_model_takes_more(larger: ModelShape) -> None:
    assert peak(larger) > peak()


def test_settings_that_are_suggested_lower_the_peak() -> None:
    update = replace(WORK, self_check=False)
    assert peak(replace(MODEL, checkpointing=True), update) < peak(work=update)
    assert peak(replace(MODEL, element=2)) < peak()
    assert peak(work=replace(WORK, micro_tokens=200)) < peak()


def test_a_tenth_of_the_memory_is_left_free() -> None:
    full = MemoryPlan((MemoryPhase(name="save", moment="writing", parts={"weights": 900}),))
    assert full.fits(1000)
    assert not full.fits(999)


def test_bytes_are_formatted() -> None:
    sizes = (2**31, 3 * 2**29, 2**28, 3 * 2**19, 700)
    assert [format_bytes(s) for s in sizes] == [
        "2.00 GiB",
        "1.50 GiB",
        "256 MiB",
        "1.5 MiB",
        "1 KiB",
    ]
