"""The groups of a stage's steps: sampled in turn with training, or ahead of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from vlrft.distributed.phases import phase, work_on
from vlrft.rollout.engines import StreamingEngine
from vlrft.schema import Group, Sample
from vlrft.selection.collect import Collected, collect
from vlrft.selection.prompt_sampler import PromptSampler
from vlrft.selection.prompt_state import PromptStates
from vlrft.trainer.ahead.staleness import staleness_metrics
from vlrft.trainer.ahead.steps import StepsAhead, Turns
from vlrft.trainer.ahead.stoppable import StoppableEngine
from vlrft.trainer.stage import PlayedShard, Stage
from vlrft.trainer.step_metrics import Timer


class Collecting(Protocol):
    """Where the loop gets the groups of its steps from."""

    def collect(self, step: int, timer: Timer) -> Collected:
        """The groups of the step, on every rank."""
        ...

    def release(self, step: int) -> None:
        """The rollout engine has the weights after `step`."""
        ...

    def metrics(self, step: int, collected: Collected) -> dict[str, float]:
        """Metrics of the step, in addition to those of its groups."""
        ...


@contextmanager
def collecting(stage: Stage, done: int) -> Iterator[Collecting]:
    """The groups of the steps after `done`. On leaving, what is under way is stopped."""
    if not stage.settings.ahead:
        yield InTurn(stage)
        return
    ahead = Ahead(stage, done)
    try:
        ahead.release(done)
        yield ahead
    finally:
        ahead.close()


@dataclass(frozen=True)
class InTurn:
    """Samples a step when it is asked for."""

    stage: Stage

    def collect(self, step: int, timer: Timer) -> Collected:
        """See `Collecting`."""
        return self.stage.collect(step)

    def release(self, step: int) -> None:
        """Nothing waits for weights."""

    def metrics(self, step: int, collected: Collected) -> dict[str, float]:
        """None."""
        return {}


@dataclass(kw_only=True)
class PlayedStep:
    """This rank's part of a step as a job has played it, before other ranks are asked and anything is recorded."""

    attempts: list[PlayedShard] = field(default_factory=list[PlayedShard])
    place: dict[str, Any] = field(default_factory=dict[str, Any])
    """The prompt sampler's state after the step's last draw."""
    seconds: float = 0.0


class Ahead:
    """Samples steps in threads while earlier ones are trained."""

    def __init__(self, stage: Stage, done: int) -> None:
        settings = stage.settings
        engine = stage.rollout
        assert isinstance(engine, StreamingEngine)
        self._stage = stage
        self._steps = StepsAhead(
            self._play,
            ahead=settings.ahead,
            first=done + 1,
            last=settings.last,
            progress=lambda: work_on(()),
        )
        self._engine = StoppableEngine(engine, self._steps.advance)
        self._turns = Turns(done + 1)
        self._states: dict[int, PromptStates] = {}
        self._waited = self._idle = self._idle_before = 0.0
        stage.place = stage.prompts.state_dict()

    def release(self, step: int) -> None:
        """See `Collecting`."""
        states = self._stage.prompt_states.copy()
        for later in range(step + 1, step + 2 + self._stage.settings.ahead):
            self._states.setdefault(later, states)
        self._steps.release(step)

    def collect(self, step: int, timer: Timer) -> Collected:
        """See `Collecting`. Raises the error that the sampling of this step met."""
        start = time.perf_counter()
        with phase("waiting"):
            played = self._steps.take(step)
        self._waited = time.perf_counter() - start
        idle = self._steps.idle_seconds
        self._idle, self._idle_before = idle - self._idle_before, idle
        timer.seconds["sampling"] = played.seconds
        del self._states[step]
        collected = self._admit(step, played.attempts)
        self._stage.place = played.place
        return collected

    def _admit(self, step: int, attempts: Sequence[PlayedShard]) -> Collected:
        """The groups of a step whose attempts have been played: the same choice, with those of all ranks."""
        stage = self._stage

        def admit(samples: Sequence[Sample], attempt: int) -> list[Group]:
            return stage.admit(step, attempt, attempts[attempt])

        size = stage.settings.config.prompts_per_step
        return collect(_PlayedPrompts(iter(attempts)), admit, stage.settings.algorithm.keep, size)

    def metrics(self, step: int, collected: Collected) -> dict[str, float]:
        """Staleness, and the seconds that trainer and samplers waited for each other."""
        return {
            **staleness_metrics(step, collected.sampled),
            "time/waiting_s": self._waited,
            "time/sampler_idle_s": self._idle,
        }

    def close(self) -> None:
        """Stops what is under way."""
        self._turns.close()
        self._engine.stop()
        self._steps.join()

    def _play(self, step: int, version: int) -> PlayedStep:
        """The job of a step, in its thread: draws prompts when it is the step's turn, and plays this rank's shard."""
        start = time.perf_counter()
        stage, played, states = self._stage, PlayedStep(), self._states[step]
        keep = stage.settings.algorithm.keep
        draws = _DrawsInTurn(stage.prompts, self._turns, step, keep.max_attempts)

        def play(samples: Sequence[Sample], attempt: int) -> list[Group]:
            shard = stage.play_shard(
                step, samples, attempt, engine=self._engine, version=version, states=states
            )
            played.attempts.append(shard)
            return stage.usable(step, attempt, shard.groups) if keep.max_attempts > 1 else []

        try:
            collect(draws, play, keep, stage.settings.config.prompts_per_step)
        finally:
            draws.end()
        played.place, played.seconds = draws.place, time.perf_counter() - start
        return played


class _DrawsInTurn:
    """A step's draws from a prompt sampler: they begin when the step before has drawn for the last time."""

    def __init__(self, prompts: PromptSampler, turns: Turns, step: int, most: int) -> None:
        self._prompts, self._turns, self._step = prompts, turns, step
        self._left = most
        self._ended = False
        self.place: dict[str, Any] = {}

    def draw(self, size: int) -> list[Sample]:
        """See `vlrft.selection.collect.Prompts`."""
        self._turns.wait(self._step)
        samples = self._prompts.draw(size)
        self._left -= 1
        if not self._left:
            self.end()
        return samples

    def end(self) -> None:
        """The step draws no more."""
        if not self._ended:
            self._ended = True
            self.place = self._prompts.state_dict()
            self._turns.end(self._step)


@dataclass(frozen=True)
class _PlayedPrompts:
    """The prompts of attempts that have been played."""

    attempts: Iterator[PlayedShard]

    def draw(self, size: int) -> list[Sample]:
        """See `vlrft.selection.collect.Prompts`."""
        return list(next(self.attempts).samples)
