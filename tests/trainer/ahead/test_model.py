"""The model of a pipeline (`vlrft.testing.pipeline`) against the scheduler that runs use, event by event."""

from __future__ import annotations

import threading

import pytest

from vlrft.testing.pipeline.plan import Pipeline, ServerTimes, Workload
from vlrft.testing.pipeline.simulate import simulate
from vlrft.trainer.ahead.steps import StepsAhead

STEPS = 12


@pytest.mark.parametrize("ahead", [1, 2, 4])
@pytest.mark.parametrize("train", [5.0, 60.0])
def test_the_model_begins_the_steps_that_the_scheduler_begins(ahead: int, train: float) -> None:
    """The scheduler gets the model's events in their order, with the model's time as its clock: each step begins with the
    same weights, and as long passes in which nothing is sampled."""
    work = Workload(samples=2, group=2, tokens=20, spread=1.2)
    pipeline = Pipeline(
        server=ServerTimes(token=1.0, row=0.5), servers=4, ahead=ahead, train=train, push=2.0
    )
    played = simulate(pipeline, [work.step(3, k) for k in range(STEPS)]).steps
    assert [step.sampled for step in played] != sorted(step.sampled for step in played)
    now = [0.0]
    gates = {step.step: threading.Event() for step in played}
    begun: dict[int, int] = {}

    def job(step: int, version: int) -> int:
        begun[step] = version
        assert gates[step].wait(20)
        return version

    jobs = StepsAhead(job, ahead=ahead, first=1, last=STEPS, clock=lambda: now[0])
    jobs.release(0)
    sampled = [(step.sampled, False, step.step) for step in played]
    trained = [(step.end, True, step.step) for step in played]
    for now[0], ends, number in sorted(sampled + trained):
        if ends:
            assert jobs.take(number) == played[number - 1].version
            jobs.release(number)
        else:
            gates[number].set()
            thread = jobs._jobs[number].thread
            assert thread is not None
            thread.join(20)
    jobs.join()
    assert begun == {step.step: step.version for step in played}
    busy, idle = 0.0, 0.0
    for step in played:
        idle += max(step.begin - busy, 0.0)
        busy = max(busy, step.sampled)
    assert jobs.idle_seconds == pytest.approx(idle)
    assert idle > 0
