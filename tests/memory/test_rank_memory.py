"""A rank's plan: what its engine says goes into the moments that it speaks of."""

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
SHARE = RankMemory(
    held={"weights": 10**6, "optimiser moments": 10**7},
    gradients=GradientMemory(fresh=0, summed=0, in_place=True),
)


def planned(share: RankMemory, work: StepWork = WORK) -> MemoryPlan:
    return plan(GPU, work, share, shared_prefix_memory)


def phase(plan: MemoryPlan, name: str) -> dict[str, int]:
    (found,) = [phase for phase in plan.phases if phase.name == name]
    return dict(found.parts)


def test_parts_are_summed_by_name() -> None:
    assert add_parts({"a": 1, "b": 2}, {"b": 3}, {}) == {"a": 1, "b": 5}


def test_weights_are_gathered_for_what_reads_them() -> None:
    share = replace(SHARE, self_check={"gathered weights": 777}, sampling={"gathered weights": 333})
    found = planned(share)
    gathered = {p.name: p.parts.get("gathered weights", 0) for p in found.phases}
    own = {"self-check": 777, "rollout": 333, "evaluation": 333}
    assert gathered == {**own, "update": 0, "save": 0}


def test_moments_are_there_before_the_first_step_where_the_engine_begins_with_them() -> None:
    assert "optimiser moments" not in phase(planned(SHARE), "self-check")
    early = planned(replace(SHARE, moments_from_start=True))
    assert phase(early, "self-check")["optimiser moments"] == 10**7


def test_a_sum_of_gradients_grows_or_they_lie_beside_it() -> None:
    assert GradientMemory(fresh=3, summed=5, in_place=True).at_end(5) == 3
    assert GradientMemory(fresh=3, summed=5, in_place=False).at_end(5) == 8


BUCKETS = {"communication buckets": 10**8}


@pytest.mark.parametrize(
    ("moment", "share"),
    [
        ("the optimiser's step", replace(SHARE, step=BUCKETS)),
        ("backward of the logits", replace(SHARE, backward=BUCKETS)),
        ("reducing gradients", replace(SHARE, reducing=BUCKETS)),
    ],
)
def test_an_engines_moment_may_be_the_fullest(moment: str, share: RankMemory) -> None:
    (update,) = [phase for phase in planned(share).phases if phase.name == "update"]
    assert update.moment == moment
    assert update.parts["communication buckets"] == 10**8


def test_what_a_pass_gathers_and_keeps_goes_with_it() -> None:
    share = replace(SHARE, passes={"gathered weights": 1000}, reducing={"communication buckets": 1})
    assert phase(planned(share), "update")["gathered weights"] == 1000
    late = replace(share, reducing={"communication buckets": 10**8}, reduce_from=0.75)
    assert phase(planned(late), "update")["gathered weights"] == 250
    done = replace(late, reduce_from=1.0)
    assert "gathered weights" not in phase(planned(done), "update")


@pytest.mark.parametrize(
    ("in_place", "summed", "expected"),
    [(True, 10**8, 10**8), (False, 10**8, 10**8 + 10**8)],
)
def test_gradients_come_into_the_sum_or_beside_it(
    in_place: bool, summed: int, expected: int
) -> None:
    gradients = GradientMemory(fresh=10**8, summed=summed, in_place=in_place)
    assert phase(planned(replace(SHARE, gradients=gradients)), "update")["gradients"] == expected
    # A single micro-batch finds none before it.
    one = replace(WORK, prompts=(PROMPT,))
    assert phase(planned(replace(SHARE, gradients=gradients), one), "update")["gradients"] == 10**8


def test_the_machines_memory_is_told_apart_on_a_gpu_alone() -> None:
    share = replace(SHARE, host={"float32 copies": 300}, saving={"float32 copies": 50})
    found = planned(share)
    assert [dict(p.host) for p in found.phases[:-1]] == [{"float32 copies": 300}] * 4
    assert found.phases[-1].host == {"float32 copies": 350}
    assert "float32 copies" not in phase(found, "update")
    one = plan(replace(GPU, gpu=False, decoder=DECODER), WORK, share, shared_prefix_memory)
    assert phase(one, "update")["float32 copies"] == 300
    assert phase(one, "save")["float32 copies"] == 350
    assert all(not p.host for p in one.phases)
