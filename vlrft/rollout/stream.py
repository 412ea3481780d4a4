"""Episodes that run on their own: each turn is sent as soon as it is ready, so none waits for another."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import Any

from vlrft.distributed.phases import phase
from vlrft.envs import EnvFailure
from vlrft.policy.chat import Chat
from vlrft.rollout.engines import Sampling, StreamingEngine
from vlrft.rollout.episode import Episode, number_samples
from vlrft.rollout.task import LoadedTask
from vlrft.rollout.turns import PromptRenderer, exceeds_limit, make_requests, require_finite
from vlrft.schema import Observation, Piece, Prompt, Sample, Step

Arrival = Observation | Step | EnvFailure | Piece


def stream_episodes(
    loaded: LoadedTask,
    samples: Sequence[Sample],
    seeds: Sequence[int],
    numbers: Sequence[int],
    engine: StreamingEngine,
    chat: Chat,
    sampling: Sampling,
) -> list[Episode]:
    """Plays one episode per sample; returns them in order, all ended. Environments are closed even after an error.

    `numbers`: those of the rollouts in their groups.

    An episode is the one that lock-step would play: its prompts and seeds depend on its own turns alone, and not on what
    arrives first.
    """
    stream = _Stream(loaded, engine, chat, sampling)
    try:
        with phase("environment"):
            begun = loaded.host.begin(number_samples(samples, numbers))
        for sample, seed, (handle, first) in zip(samples, seeds, begun, strict=True):
            stream.add(
                Episode(sample, seed, handle, keeps_turns=loaded.task.env is not None), first
            )
        stream.run()
    finally:
        stream.close()
    return stream.episodes


class _Stream:
    """Episodes under way, each with one future: of its environment's result or of its completion."""

    def __init__(
        self, loaded: LoadedTask, engine: StreamingEngine, chat: Chat, sampling: Sampling
    ) -> None:
        self.episodes: list[Episode] = []
        self._host, self._limits = loaded.host, loaded.env
        self._engine, self._sampling = engine, sampling
        self._renderer = PromptRenderer(chat)
        self._arrived: SimpleQueue[tuple[Episode, Future[Any]]] = SimpleQueue()
        self._under_way = 0
        self._completions: set[Future[Piece]] = set()  # that the engine works on
        self._prompts: dict[int, Prompt] = {}  # of turns under way, by the episode's handle
        self._pieces: dict[int, Piece] = {}  # that environments work on

    def add(self, episode: Episode, first: Future[Observation | EnvFailure]) -> None:
        self.episodes.append(episode)
        self._await(episode, first)

    def run(self) -> None:
        """Advances the episodes until each has ended."""
        while self._under_way:
            pieces: list[tuple[Episode, Piece]] = []
            observed: list[Episode] = []
            for episode, future in self._arrivals():
                arrival: Arrival = future.result()
                if isinstance(arrival, Piece):
                    self._completions.discard(future)
                    pieces.append((episode, arrival))
                else:
                    self._observe(episode, arrival)
                    observed.append(episode)
            require_finite([e.sample.id for e, _ in pieces], [piece for _, piece in pieces])
            for episode, piece in pieces:
                self._act(episode, piece)
            running = [episode for episode in observed if episode.observation is not None]
            for _, same in groupby(running, key=lambda episode: episode.sample.id):
                self._request(list(same))  # at once: the engine samples while the next are rendered

    def close(self) -> None:
        """Closes the environments, and gives up what is under way after an error."""
        for completion in self._completions:
            completion.cancel()
        self._host.close([episode.handle for episode in self.episodes])

    def _await(self, episode: Episode, future: Future[Any]) -> None:
        self._under_way += 1
        future.add_done_callback(lambda done: self._arrived.put((episode, done)))

    def _arrivals(self) -> list[tuple[Episode, Future[Any]]]:
        """All that has arrived; waits for one."""
        with nullcontext() if self._completions else phase("environment"):
            arrivals = [self._arrived.get()]
        try:
            while True:
                arrivals.append(self._arrived.get_nowait())
        except Empty:
            self._under_way -= len(arrivals)
            return arrivals

    def _observe(self, episode: Episode, result: Observation | Step | EnvFailure) -> None:
        piece = self._pieces.pop(episode.handle, None)
        if piece is not None:
            assert not isinstance(result, Observation)
            episode.advance(self._prompts.pop(episode.handle), piece, result, self._limits)
        elif isinstance(result, EnvFailure):
            episode.fail(result)
        else:
            assert isinstance(result, Observation)
            episode.observation = result

    def _request(self, episodes: Sequence[Episode]) -> None:
        """Sends the next turn of these episodes, except of those whose prompt is too long."""
        running: list[Episode] = []
        prompts: list[Prompt] = []
        for episode in episodes:
            prompt = self._renderer.render(episode)
            if exceeds_limit(episode, prompt, self._sampling.limits):
                episode.end("tokens")
            else:
                running.append(episode)
                prompts.append(prompt)
        for request, places in make_requests(running, prompts):
            completions = self._engine.submit(request, self._sampling)
            self._completions.update(completions)
            for k, completion in zip(places, completions, strict=True):
                self._prompts[running[k].handle] = prompts[k]
                self._await(running[k], completion)

    def _act(self, episode: Episode, piece: Piece) -> None:
        """Passes the policy's text of a turn to the environment."""
        self._pieces[episode.handle] = piece
        with phase("environment"):
            result = self._host.submit(episode.handle, piece.text)
        self._await(episode, result)
