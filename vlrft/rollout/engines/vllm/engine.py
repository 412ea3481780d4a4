"""The engine: completions from servers, which have the weights after each step."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from socket import socket
from time import monotonic

from torch import Tensor

from vlrft.policy.policy import Policy
from vlrft.rollout.engines.prompt_limits import check_prompt
from vlrft.rollout.engines.sampled_rows import Endings
from vlrft.rollout.engines.stop_strings import stop_strings
from vlrft.rollout.engines.types import EnginePlace, Request, Sampling
from vlrft.rollout.engines.vllm.broadcast import WeightBroadcast
from vlrft.rollout.engines.vllm.checksums import ask_checksums, describe_changes
from vlrft.rollout.engines.vllm.command import LOG, hold_port, server_command, write_model
from vlrft.rollout.engines.vllm.completion import Group, Sampler
from vlrft.rollout.engines.vllm.follower import Follower
from vlrft.rollout.engines.vllm.images import ImageSender
from vlrft.rollout.engines.vllm.loop import LoopThread
from vlrft.rollout.engines.vllm.pool import Pool
from vlrft.rollout.engines.vllm.served_policy import check_policy, make_wire
from vlrft.rollout.engines.vllm.server import Server, State
from vlrft.rollout.engines.vllm.settings import Settings
from vlrft.rollout.engines.vllm.supervisor import Supervisor
from vlrft.rollout.engines.vllm.transfer import Transfer, Update, take_over, weight_parts
from vlrft.rollout.engines.vllm.waits import describe_waits
from vlrft.rollout.engines.vllm.weights import WeightFiles
from vlrft.schema import Piece
from vlrft.schema.errors import ServerError
from vlrft.tracing.phases import depend_on, phase


class VllmEngine:
    """Samples with servers. Every rank asks them for its own completions; rank 0 starts, updates and ends them."""

    def __init__(self, settings: Settings, policy: Policy, place: EnginePlace) -> None:
        """Raises ConfigError for a policy that the servers cannot sample as it is trained."""
        check_policy(settings, policy, place.ranks.size)
        self.settings, self.policy, self.place = settings, policy, place
        self.check_every, self.max_gap = settings.check_every, settings.max_gap
        self.servers: tuple[Server, ...] = ()
        self._wire = make_wire(policy)
        self._update: Update | None = None
        self._loop: LoopThread | None = None
        self._supervisor: Supervisor | None = None
        self._transfer: Transfer | None = None  # of the first rank
        self._ports: list[socket] = []
        self._asleep = False

    # --- completions ---

    def submit(self, request: Request, sampling: Sampling) -> list[Future[Piece]]:
        """See `StreamingEngine.submit`. `Piece.policy_steps` is always there."""
        chat = self.policy.chat
        check_prompt(request, sampling.limits)
        if self._loop is None:
            raise ServerError("rollout.engine: the servers have not been given weights yet")
        if self._asleep:
            self._wake()
        stops = stop_strings(sampling.stop, chat, self._wire.vocab) if sampling.stop else None
        endings = Endings(end_ids=chat.end_ids, max_tokens=sampling.max_tokens, stops=stops)
        group = Group(request=request, sampling=sampling, endings=endings)
        return [self._loop.submit(self._sampler.complete(group, seed)) for seed in request.seeds]

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
        if self.settings.sleep and idle and self._loop is not None and not self._asleep:
            self._loop.run(self._post_all("/sleep", level="1"))
            self._asleep = True

    # --- weights ---

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], step: int) -> None:
        """See `RolloutEngine.load_weights`. The first call starts the servers.

        Raises ServerError where no server has the weights in the end.
        """
        ranks = self.place.ranks
        try:
            if self._loop is None:
                self._start()
            assert self._loop is not None
            adapters, first = self.settings.lora == "adapter", self._update is None
            parts = weight_parts(weights, adapters=adapters, first=first)
            update = take_over(self._transfer, parts, step)
            if not ranks.first:
                self._loop.run(self._pool.set_open(False))
            # Waits until every rank holds completions back, which would name the adapter before.
            ranks.sum_count(0)
            self._update = ranks.run_on_first(lambda: self._push(update))
            if not ranks.first:
                self._loop.run(self._follow())
        except BaseException:
            self.close()
            raise

    def _push(self, update: Update | Exception | None) -> Update:
        if isinstance(update, Exception):
            raise update
        assert update is not None
        assert self._loop is not None
        assert self._supervisor is not None
        if self._asleep:
            self._loop.run(self._post_all("/wake_up", tags="weights"))
        self._loop.run(self._change_weights(update, self._supervisor))
        if self._asleep:
            self._loop.run(self._post_all("/wake_up", tags="kv_cache"))
            self._asleep = False
        return update

    async def _change_weights(self, update: Update, supervisor: Supervisor) -> None:
        await self._pool.set_open(False)
        self._update = update  # completions that go on ask for these as soon as the pool is open
        await supervisor.push(update)

    async def _follow(self) -> None:
        """Ranks other than the first: servers that rank 0 has given the first weights can be asked; those that this rank has given up
        may come back with these."""
        for server in self.servers:
            if server.state is State.STARTING:
                await self._pool.set_state(server, State.READY)
            elif server.state is State.GIVEN_UP:
                await self._pool.set_state(server, State.LOST, server.reason)
        await self._pool.set_open(True)

    def explain_gap(self) -> str:
        """After a gap to the trainer: sends the weights again, and says which of the server's tensors that changed."""
        if self._loop is None or self._supervisor is None or self._update is None:
            return ""
        server = next((s for s in self.servers if s.state is State.READY), None)
        if server is None:
            return "no server is ready to say which weights it has"
        seconds = self.settings.update_seconds
        try:
            before = self._loop.run(ask_checksums(server, seconds))
            self._loop.run(self._supervisor.push(self._update))
            after = self._loop.run(ask_checksums(server, seconds))
        except ServerError as e:
            return f"the weights could not be sent again ({e})"
        return describe_changes(before, after)

    # --- start and end ---

    def close(self) -> None:
        """See `ClosableEngine.close`."""
        loop, self._loop = self._loop, None
        if loop is not None:
            depend_on(None)
            try:
                if self._supervisor is not None:
                    loop.run(self._supervisor.close())
            finally:
                loop.close(self._disconnect)
                if self._transfer is not None:
                    self._transfer.close()
                for held in self._ports:
                    held.close()

    async def _disconnect(self) -> None:
        for server in self.servers:
            await server.close()

    def _start(self) -> None:
        self._loop = LoopThread("vlrft-vllm")
        settings, ranks = self.settings, self.place.ranks
        run, urls = ranks.run_on_first(lambda: (secrets.token_hex(4), self._addresses()))
        self._loop.run(self._connect(urls))
        depend_on(lambda: describe_waits(self.servers, monotonic()))
        follower = Follower(self._current, settings.start_seconds)
        if ranks.first:
            self._transfer = make_transfer(settings, self.policy, run)
        ranks.run_on_first(lambda: self._start_servers(urls))
        if not ranks.first:
            self._pool.on_lost = lambda server: follower.lost(server, self._pool)

    def _addresses(self) -> tuple[str, ...]:
        settings = self.settings
        if settings.urls:
            return settings.urls
        self._ports = [hold_port() for _ in range(settings.servers)]  # for as long as servers start
        return tuple(f"http://127.0.0.1:{held.getsockname()[1]}" for held in self._ports)

    async def _connect(self, urls: Sequence[str]) -> None:
        self.servers = tuple(Server(f"server {k}", url) for k, url in enumerate(urls))
        self._pool = Pool(self.servers, self.settings.max_requests, lambda server: None)
        self._sampler = Sampler(
            pool=self._pool,
            wire=self._wire,
            images=ImageSender(seconds=self.settings.request_seconds),
            chat=self.policy.chat,
            seconds=self.settings.request_seconds,
            retries=self.settings.retries,
            current=self._current,
        )

    def _start_servers(self, urls: Sequence[str]) -> None:
        assert self._loop is not None
        assert self._transfer is not None
        commands = []
        if not self.settings.urls:
            model = self._transfer.open_folder() / "model"
            write_model(self.policy, model)
            for k, url in enumerate(urls):
                port = int(url.rpartition(":")[2])
                log = (self.place.folder or model.parent) / LOG.format(k)
                context = self.place.context
                self.servers[k].log = log
                commands.append(
                    server_command(self.settings, self.policy, model, k, port, log, context)
                )
        self._supervisor = Supervisor(
            self.settings, self.servers, commands, self._pool, self.place.say, self._transfer
        )
        self._pool.on_lost = self._supervisor.lost
        self._loop.run(self._supervisor.start())

    def _current(self) -> Update:
        assert self._update is not None
        return self._update

    def _wake(self) -> None:
        assert self._loop is not None
        self._loop.run(self._post_all("/wake_up"))
        self._asleep = False

    async def _post_all(self, path: str, **query: str) -> None:
        for server in self.servers:
            await server.post(path, self.settings.update_seconds, **query)


def make_transfer(settings: Settings, policy: Policy, run: str) -> Transfer:
    """The way of the weights that the settings choose."""
    if settings.transfer == "broadcast":
        return WeightBroadcast(policy, run)
    return WeightFiles(policy, settings.folder, run, adapters=settings.lora == "adapter")
