"""The engine: completions from servers, which have the weights after each step."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace

from torch import Tensor

from vlrft.policy.policy import Policy
from vlrft.rollout.engines.prompt_length import check_prompt_length
from vlrft.rollout.engines.sampled_rows import Endings
from vlrft.rollout.engines.stop_strings import stop_strings
from vlrft.rollout.engines.types import EnginePlace, Request, Sampling
from vlrft.rollout.engines.vllm.command import LOG, free_port, server_command, write_model
from vlrft.rollout.engines.vllm.completion import Group, Sampler
from vlrft.rollout.engines.vllm.follower import Follower
from vlrft.rollout.engines.vllm.loop import LoopThread
from vlrft.rollout.engines.vllm.pool import Pool
from vlrft.rollout.engines.vllm.served_policy import check_policy, make_wire
from vlrft.rollout.engines.vllm.server import Server, State
from vlrft.rollout.engines.vllm.settings import Settings
from vlrft.rollout.engines.vllm.supervisor import Supervisor
from vlrft.rollout.engines.vllm.update import Update
from vlrft.rollout.engines.vllm.weights import WeightFiles
from vlrft.schema import Piece
from vlrft.schema.errors import ServerError
from vlrft.tracing.phases import phase


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
        self._files: WeightFiles | None = None
        self._asleep = False

    # --- completions ---

    def submit(self, request: Request, sampling: Sampling) -> list[Future[Piece]]:
        """See `StreamingEngine.submit`. `Piece.policy_steps` is always there."""
        chat = self.policy.chat
        check_prompt_length(request, sampling.limits.max_prompt_tokens, chat.image_token_id)
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
            if self._files is None:
                deque(weights, maxlen=0)  # sharded weights are gathered by all ranks together
                update = None
            else:
                update = self._files.write(weights, step)
            if not ranks.first:
                self._loop.run(self._pool.set_open(False))
            ranks.sum_count(
                0
            )  # every rank holds completions back that would name the adapter before
            self._update = ranks.run_on_first(lambda: self._push(update))
            if not ranks.first:
                self._loop.run(self._follow())
        except BaseException:
            self.close()
            raise

    def _push(self, update: Update | None) -> Update:
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
        try:
            before = self._loop.run(self._checksums())
            self._loop.run(self._supervisor.push(self._update))
            after = self._loop.run(self._checksums())
        except ServerError as e:
            return f"the weights could not be sent again ({e})"
        changed = sorted(name for name in after if after[name] != before.get(name))
        if changed:
            shown = ", ".join(changed[:5])
            return (
                f"sent again, {len(changed)} of {len(after)} tensors changed on the server: {shown}"
            )
        return (
            f"sent again, none of {len(after)} tensors changed on the server: what differs is not a weight that is sent, such as a "
            "copy of the head, the precision, or the handling of images"
        )

    async def _checksums(self) -> dict[str, str]:
        server = next(s for s in self.servers if s.state is State.READY)
        body = {"action": "checksum"}
        answer = await server.post("/weight_checker", self.settings.update_seconds, body)
        sums = answer.get("checksums")
        return dict(sums) if isinstance(sums, dict) else {}

    # --- start and end ---

    def close(self) -> None:
        """See `ClosableEngine.close`."""
        loop, self._loop = self._loop, None
        if loop is not None:
            try:
                if self._supervisor is not None:
                    loop.run(self._supervisor.close())
            finally:
                loop.close(self._disconnect)
                if self._files is not None:
                    self._files.close()

    async def _disconnect(self) -> None:
        for server in self.servers:
            await server.close()

    def _start(self) -> None:
        self._loop = LoopThread("vlrft-vllm")
        settings, ranks = self.settings, self.place.ranks
        run, urls = ranks.run_on_first(lambda: (secrets.token_hex(4), self._addresses()))
        self._loop.run(self._connect(urls))
        follower = Follower(self._current, settings.start_seconds)
        if ranks.first:
            adapters = settings.lora == "adapter"
            self._files = WeightFiles(self.policy, settings.folder, run, adapters=adapters)
        ranks.run_on_first(lambda: self._start_servers(urls))
        if not ranks.first:
            self._pool.on_lost = lambda server: follower.lost(server, self._pool)

    def _addresses(self) -> tuple[str, ...]:
        settings = self.settings
        own = (f"http://127.0.0.1:{free_port()}" for _ in range(settings.servers))
        return settings.urls or tuple(own)

    async def _connect(self, urls: Sequence[str]) -> None:
        self.servers = tuple(Server(f"server {k}", url) for k, url in enumerate(urls))
        self._pool = Pool(self.servers, self.settings.max_requests, lambda server: None)
        self._sampler = Sampler(
            pool=self._pool,
            wire=self._wire,
            chat=self.policy.chat,
            seconds=self.settings.request_seconds,
            retries=self.settings.retries,
            current=self._current,
        )

    def _start_servers(self, urls: Sequence[str]) -> None:
        assert self._loop is not None
        assert self._files is not None
        commands = []
        if not self.settings.urls:
            model = self._files.folder / "model"
            write_model(self.policy, model)
            for k, url in enumerate(urls):
                port = int(url.rpartition(":")[2])
                log = (self.place.folder or self._files.folder) / LOG.format(k)
                context = self.place.context
                commands.append(
                    server_command(self.settings, self.policy, model, k, port, log, context)
                )
        self._supervisor = Supervisor(
            self.settings, self.servers, commands, self._pool, self.place.say
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
