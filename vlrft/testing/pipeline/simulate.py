"""Plays the steps of a pipeline: episodes on servers and in environments, and a trainer that takes steps in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vlrft.testing.pipeline.clock import Clock, Workers
from vlrft.testing.pipeline.plan import Episode, Pipeline, StepWork
from vlrft.testing.pipeline.report import History, StepHistory
from vlrft.testing.pipeline.server import Request, Server, Versions


def simulate(pipeline: Pipeline, steps: Sequence[StepWork]) -> History:
    """Times of all steps, and when the trainer and the servers were busy. Equal for equal arguments."""
    run = _Run(pipeline, steps)
    run.release(0)
    run.clock.run()
    return run.history


class _Run:
    def __init__(self, pipeline: Pipeline, steps: Sequence[StepWork]) -> None:
        self.clock = Clock()
        self.servers = [Server(self.clock, pipeline.server) for _ in range(pipeline.servers)]
        self.environments = Workers(self.clock, pipeline.env_workers)
        self.pipeline, self.work = pipeline, steps
        self.steps = [StepHistory(step=k + 1) for k in range(len(steps))]
        self.history = History(steps=self.steps, servers=[server.busy for server in self.servers])
        self.left = [len(step) for step in steps]  # episodes that have not ended
        self.begun = 0
        self.trained = 0
        self.training = False

    def release(self, version: int) -> None:
        """The weights after step `version` are out: begins the steps that may be sampled now."""
        while self.begun < min(version + 1 + self.pipeline.ahead, len(self.work)):
            step, self.begun = self.begun, self.begun + 1
            self.steps[step].version, self.steps[step].begin = version, self.clock.now
            if self.pipeline.lock_step:
                self._play_turn_together(step, 0)
            else:
                for episode in self.work[step]:
                    self._play_turn(step, episode, 0)

    def _play_turn(self, step: int, episode: Episode, turn: int) -> None:
        if turn == len(episode.turns):
            self._end_episodes(step, 1)
        else:
            self._sample(step, episode, turn, lambda: self._play_turn(step, episode, turn + 1))

    def _play_turn_together(self, step: int, turn: int) -> None:
        """Each environment begins when all have been answered, and the next turn when all have ended."""
        running = [episode for episode in self.work[step] if turn < len(episode.turns)]
        if not running:
            self._end_episodes(step, len(self.work[step]))
            return
        act = _together(len(running), lambda: self._act_together(step, running, turn))
        for episode in running:
            self._request(step, episode, turn, act)

    def _act_together(self, step: int, running: Sequence[Episode], turn: int) -> None:
        done = _together(len(running), lambda: self._play_turn_together(step, turn + 1))
        for episode in running:
            self.environments.work(episode.turns[turn].environment, done)

    def _sample(self, step: int, episode: Episode, turn: int, done: Callable[[], object]) -> None:
        seconds = episode.turns[turn].environment
        self._request(step, episode, turn, lambda: self.environments.work(seconds, done))

    def _request(self, step: int, episode: Episode, turn: int, done: Callable[[], object]) -> None:
        """A turn's completion, from the server with the fewest requests."""
        prompt = (episode.sample, 0) if turn == 0 else (id(episode), turn)

        def end(versions: Versions) -> None:
            self.steps[step].add(versions)
            done()

        shape = episode.turns[turn]
        request = Request(tokens=shape.tokens, prompt=shape.prompt, key=prompt, done=end)
        min(self.servers, key=lambda server: server.load).submit(request)

    def _end_episodes(self, step: int, count: int) -> None:
        self.left[step] -= count
        if not self.left[step]:
            self.steps[step].sampled = self.clock.now
            self._train()

    def _train(self) -> None:
        """Trains on the next step, if it is there."""
        step = self.trained
        if self.training or step == len(self.work) or self.left[step] or step >= self.begun:
            return
        self.training = True
        self.steps[step].train = self.clock.now
        tokens = sum(self.steps[step].tokens.values())
        seconds = self.pipeline.train + tokens * self.pipeline.train_token
        self.clock.after(seconds, self._push)

    def _push(self) -> None:
        for server in self.servers:
            server.pause()
        self.clock.after(self.pipeline.push, self._end_step)

    def _end_step(self) -> None:
        self.steps[self.trained].end = self.clock.now
        self.trained, self.training = self.trained + 1, False
        for server in self.servers:
            server.resume(self.trained)
        self.release(self.trained)
        self._train()


def _together(count: int, action: Callable[[], object]) -> Callable[[], None]:
    """A function whose last call, of `count`, calls the action."""
    left = [count]

    def call() -> None:
        left[0] -= 1
        if not left[0]:
            action()

    return call
