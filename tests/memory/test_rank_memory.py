"""The plan of one rank: what its train engine states is counted in the phases that it names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.memory.shapes import DECODER, MODEL, WEIGHTS
from vlrft.memory.phases import plan
from vlrft.memory.plan import MemoryPlan
from vlrft.memory.rank_memory import GradientMemory, RankMemory, add_parts
from vlrft.memory.sampling_phase import shared_prefix_memory
from vlrft.memory.shapes import PromptSize
from vlrft.memory.workload import RolloutWork, StepWork

PROMPT = PromptSize(tokens=4)
SAMPLING = RolloutWork(prompts=(PROMPT,), answers=2, tokens=2)
WORK = StepWork(
    prompts=(PROMPT,) * 2,
    group=2,
    tokens=2,
    micro_tokens=8,  # two micro-batches
    rollout=SAMPLING,
    evaluation=SAMPLING,
    self_check=True,
)
GPU = replace(MODEL, tower=None, gpu=True, head_trained=False)
GPU = replace(GPU, weights=replace(WEIGHTS, embedding=0, tower=0))
RANK = RankMemory(
    held={"weights": 10**6, "optimiser moments": 10**7},
    gradients=GradientMemory(fresh=0, summed=0, in_place=True),
)


def make_plan(rank: RankMemory, work: StepWork = WORK) -> MemoryPlan:
    return plan(GPU, work, rank, shared_prefix_memory)


def parts_of(plan: MemoryPlan, name: str) -> dict[str, int]:
    (phase,) = [phase for phase in plan.phases if phase.name == name]
    return dict(phase.parts)


def test_parts_are_summed_by_name() -> None:
    assert add_parts({"a": 1, "b": 2}, {"b": 3}, {}) == {"a": 1, "b": 5}


def test_gathered_weights_are_counted_in_the_phases_that_read_them() -> None:
    rank = replace(RANK, self_check={"gathered weights": 777}, sampling={"gathered weights": 333})
    phases = make_plan(rank).phases
    gathered = {phase.name: phase.parts.get("gathered weights", 0) for phase in phases}
    sampling = {"rollout": 333, "evaluation": 333}
    assert gathered == {"self-check": 777, **sampling, "update": 0, "save": 0}


def test_weights_that_a_sampler_elsewhere_reads_are_gathered_a_part_at_a_time() -> None:
    rank = replace(RANK, sampling={"gathered weights": 333}, reading={"gathered weights": 22})
    elsewhere = plan(GPU, WORK, rank, None)
    gathered = {phase.name: phase.parts.get("gathered weights", 0) for phase in elsewhere.phases}
    assert gathered == {"self-check": 0, "update": 0, "weights to sampler": 22, "save": 0}
    lora = replace(GPU, weights=replace(GPU.weights, total=GPU.weights.base + 64, adapted=10))
    merging = parts_of(plan(lora, WORK, rank, None), "weights to sampler")["weights"]
    assert merging == RANK.held["weights"] + 10 * (GPU.element + 8)


def test_an_engine_may_have_its_moments_before_the_first_step() -> None:
    assert "optimiser moments" not in parts_of(make_plan(RANK), "self-check")
    early = make_plan(replace(RANK, moments_from_start=True))
    assert parts_of(early, "self-check")["optimiser moments"] == 10**7


def test_gradients_are_added_in_place_or_have_a_second_buffer() -> None:
    assert GradientMemory(fresh=3, summed=5, in_place=True).at_end(5) == 3
    assert GradientMemory(fresh=3, summed=5, in_place=False).at_end(5) == 8


BUCKETS = {"communication buckets": 10**8}


@pytest.mark.parametrize(
    ("moment", "rank"),
    [
        ("the optimiser's step", replace(RANK, step=BUCKETS)),
        ("backward of the logits", replace(RANK, backward=BUCKETS)),
        ("reducing gradients", replace(RANK, reducing=BUCKETS)),
    ],
)
def test_an_engines_moment_may_be_the_fullest(moment: str, rank: RankMemory) -> None:
    (update,) = [phase for phase in make_plan(rank).phases if phase.name == "update"]
    assert update.moment == moment
    assert update.parts["communication buckets"] == 10**8


def test_gathered_weights_of_a_pass_are_freed_as_it_proceeds() -> None:
    rank = replace(RANK, passes={"gathered weights": 1000}, reducing={"communication buckets": 1})
    assert parts_of(make_plan(rank), "update")["gathered weights"] == 1000
    late = replace(rank, reducing={"communication buckets": 10**8}, reduce_from=0.75)
    assert parts_of(make_plan(late), "update")["gathered weights"] == 250
    done = replace(late, reduce_from=1.0)
    assert "gathered weights" not in parts_of(make_plan(done), "update")


@pytest.mark.parametrize(
    ("in_place", "summed", "expected"),
    [(True, 10**8, 10**8), (False, 10**8, 10**8 + 10**8)],
)
def test_the_update_counts_gradients_in_place_or_twice(
    in_place: bool, summed: int, expected: int
) -> None:
    gradients = GradientMemory(fresh=10**8, summed=summed, in_place=in_place)
    assert (
        parts_of(make_plan(replace(RANK, gradients=gradients)), "update")["gradients"] == expected
    )
    # With a single micro-batch there is no sum before it.
    one = replace(WORK, prompts=(PROMPT,))
    assert (
        parts_of(make_plan(replace(RANK, gradients=gradients), one), "update")["gradients"] == 10**8
    )


def test_host_memory_is_counted_separately_on_a_gpu_alone() -> None:
    rank = replace(RANK, host={"float32 copies": 300}, saving={"float32 copies": 50})
    split = make_plan(rank)
    assert [dict(p.host) for p in split.phases[:-1]] == [{"float32 copies": 300}] * 4
    assert split.phases[-1].host == {"float32 copies": 350}
    assert "float32 copies" not in parts_of(split, "update")
    one = plan(replace(GPU, gpu=False, decoder=DECODER), WORK, rank, shared_prefix_memory)
    assert parts_of(one, "update")["float32 copies"] == 300
    assert parts_of(one, "save")["float32 copies"] == 350
    assert all(not p.host for p in one.phases)
