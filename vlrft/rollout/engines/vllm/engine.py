"""The engine: completions from servers, which have the weights after each step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace

from torch import Tensor

from vlrft.distributed.phases import phase
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.prompt_limits import check_prompt
from vlrft.rollout.engines.sampled_rows import Endings
from vlrft.rollout.engines.stop_strings import stop_strings
from vlrft.rollout.engines.types import EnginePlace, Request, Sampling
from vlrft.rollout.engines.vllm.checksums import ask_checksums, describe_changes
from vlrft.rollout.engines.vllm.completion import Group
from vlrft.rollout.engines.vllm.connection import Connection
from vlrft.rollout.engines.vllm.served_policy import check_policy, make_wire
from vlrft.rollout.engines.vllm.server import Server, State
from vlrft.rollout.engines.vllm.settings import Settings
from vlrft.rollout.engines.vllm.supervisor import Supervisor
from vlrft.rollout.engines.vllm.transfer import Update, take_over, weight_parts
from vlrft.schema import Piece
from vlrft.schema.errors import ServerError


class VllmEngine:
    """Samples with servers. Every rank asks them for its own completions; rank 0 starts, updates and ends them."""

    def __init__(self, settings: Settings, policy: Policy, place: EnginePlace) -> None:
        """Raises ConfigError for a policy that the servers cannot sample as it is trained."""
        check_policy(settings, policy, place.ranks.size)
        self.settings, self.policy, self.place = settings, policy, place
        self.check_every, self.max_gap = settings.check_every, settings.max_gap
        self.connection: Connection | None = None  # from the first weights on
        self._wire = make_wire(policy)
        self._update: Update | None = None
        self._asleep = False

    @property
    def servers(self) -> tuple[Server, ...]:
        return () if self.connection is None else self.connection.servers

    # --- completions ---

    def submit(self, request: Request, sampling: Sampling) -> list[Future[Piece]]:
        """See `StreamingEngine.submit`. `Piece.policy_steps` is always there."""
        chat, connection = self.policy.chat, self.connection
        check_prompt(request, sampling.limits)
        if connection is None:
            raise ServerError("rollout.engine: the servers have not been given weights yet")
        if self._asleep:
            connection.post_all("/wake_up")
            self._asleep = False
        stops = stop_strings(sampling.stop, chat, self._wire.vocab) if sampling.stop else None
        endings = Endings(end_ids=chat.end_ids, max_tokens=sampling.max_tokens, stops=stops)
        group = Group(request=request, sampling=sampling, endings=endings)
        complete = connection.sampler.complete
        return [connection.loop.submit(complete(group, seed)) for seed in request.seeds]

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[tuple[Piece, ...]]:
        """See `RolloutEngine.generate`."""
        futures: list[list[Future[Piece]]] = []
        try:
            for request in requests:
                futures.append(self.submit(request, sampling))
            return [tuple(self._result(f) for f in group) for group in futures]
        except BaseException:
            for future in (f for group in futures for f in group):
                future.cancel()
            raise

    @phase("completion")
    def _result(self, future: Future[Piece]) -> Piece:
        """The piece, without the steps of its tokens where these are the current weights'."""
        piece = future.result()
        same = set(piece.policy_steps) <= {self._current().step}
        return replace(piece, policy_steps=()) if same else piece

    def finish(self) -> None:
        """See `RolloutEngine.finish`. Servers that share the trainer's GPU free their memory."""
        idle = all(server.in_flight == 0 for server in self.servers)
        if self.settings.sleep and idle and self.connection is not None and not self._asleep:
            self.connection.post_all("/sleep", level="1")
            self._asleep = True

    # --- weights ---

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], step: int) -> None:
        """See `RolloutEngine.load_weights`. The first call starts the servers.

        Raises ServerError where no server has the weights in the end.
        """
        ranks = self.place.ranks
        try:
            if self.connection is None:
                self.connection = Connection(
                    self.settings, self.policy, self.place, self._wire, self._current
                )
                self.connection.start()
            connection = self.connection
            adapters, first = self.settings.lora == "adapter", self._update is None
            parts = weight_parts(weights, adapters=adapters, first=first)
            update = take_over(connection.transfer, parts, step)
            if not ranks.first:
                connection.loop.run(connection.pool.set_open(False))
            # Waits until every rank holds completions back, which would name the adapter before.
            ranks.sum_count(0)
            self._update = ranks.run_on_first(lambda: self._push(connection, update))
            if not ranks.first:
                connection.loop.run(self._follow(connection))
        except BaseException:
            self.close()
            raise

    def _push(self, connection: Connection, update: Update | Exception | None) -> Update:
        if isinstance(update, Exception):
            raise update
        assert update is not None
        assert connection.supervisor is not None
        if self._asleep:
            connection.post_all("/wake_up", tags="weights")
        connection.loop.run(self._change_weights(connection, update, connection.supervisor))
        if self._asleep:
            connection.post_all("/wake_up", tags="kv_cache")
            self._asleep = False
        return update

    async def _change_weights(
        self, connection: Connection, update: Update, supervisor: Supervisor
    ) -> None:
        await connection.pool.set_open(False)
        self._update = update  # completions that go on ask for these as soon as the pool is open
        await supervisor.push(update)

    async def _follow(self, connection: Connection) -> None:
        """Ranks other than the first: servers that rank 0 has given the first weights can be asked; those that this rank has given up
        may come back with these."""
        for server in connection.servers:
            if server.state is State.STARTING:
                await connection.pool.set_state(server, State.READY)
            elif server.state is State.GIVEN_UP:
                await connection.pool.set_state(server, State.LOST, server.reason)
        await connection.pool.set_open(True)

    def explain_gap(self) -> str:
        """After a gap to the trainer: sends the weights again, and says which of the server's tensors that changed."""
        connection = self.connection
        if connection is None or connection.supervisor is None or self._update is None:
            return ""
        server = next((s for s in connection.servers if s.state is State.READY), None)
        if server is None:
            return "no server is ready to say which weights it has"
        seconds = self.settings.update_seconds
        try:
            before = connection.loop.run(ask_checksums(server, seconds))
            connection.loop.run(connection.supervisor.push(self._update))
            after = connection.loop.run(ask_checksums(server, seconds))
        except ServerError as e:
            return f"the weights could not be sent again ({e})"
        return describe_changes(before, after)

    def close(self) -> None:
        """See `ClosableEngine.close`."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def _current(self) -> Update:
        assert self._update is not None
        return self._update
