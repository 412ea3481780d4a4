"""The servers of an engine, from its first weights until it is closed: how they are started, asked and ended."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from socket import socket
from time import monotonic

from vlrft.distributed.phases import depend_on
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.types import EnginePlace
from vlrft.rollout.engines.vllm.broadcast import WeightBroadcast
from vlrft.rollout.engines.vllm.command import LOG, hold_port, server_command, write_model
from vlrft.rollout.engines.vllm.completion import Sampler
from vlrft.rollout.engines.vllm.follower import Follower
from vlrft.rollout.engines.vllm.images import ImageSender
from vlrft.rollout.engines.vllm.loop import LoopThread
from vlrft.rollout.engines.vllm.pool import Pool
from vlrft.rollout.engines.vllm.server import Server
from vlrft.rollout.engines.vllm.settings import Settings
from vlrft.rollout.engines.vllm.supervisor import Supervisor
from vlrft.rollout.engines.vllm.transfer import Transfer, Update
from vlrft.rollout.engines.vllm.waits import describe_waits
from vlrft.rollout.engines.vllm.weights import WeightFiles
from vlrft.rollout.engines.vllm.wire import Wire


class Connection:
    """The loop that asks the servers, on every rank; their transfer and their supervisor on the first one. `start` comes first;
    `close` may come at any time, also after a start that failed."""

    def __init__(
        self,
        settings: Settings,
        policy: Policy,
        place: EnginePlace,
        wire: Wire,
        current: Callable[[], Update],
    ) -> None:
        """`current`: the weights that completions ask for."""
        self.settings, self.policy, self.place = settings, policy, place
        self.loop = LoopThread("vlrft-vllm")
        self.servers: tuple[Server, ...] = ()
        self.supervisor: Supervisor | None = None
        self.transfer: Transfer | None = None
        self._wire, self._current = wire, current
        self._ports: list[socket] = []

    def start(self) -> None:
        """All ranks together. Raises ServerError where no server starts."""
        ranks = self.place.ranks
        run, urls = ranks.run_on_first(lambda: (secrets.token_hex(4), self._addresses()))
        self.loop.run(self._connect(urls))
        depend_on(lambda: describe_waits(self.servers, monotonic()))
        follower = Follower(self._current, self.settings.start_seconds)
        if ranks.first:
            self.transfer = make_transfer(self.settings, self.policy, run)
        ranks.run_on_first(lambda: self._start_servers(urls))
        if not ranks.first:
            self.pool.on_lost = lambda server: follower.lost(server, self.pool)

    def close(self) -> None:
        """Ends requests, and on the first rank its servers."""
        depend_on(None)
        try:
            if self.supervisor is not None:
                self.loop.run(self.supervisor.close())
        finally:
            self.loop.close(self._disconnect)
            if self.transfer is not None:
                self.transfer.close()
            for held in self._ports:
                held.close()

    def post_all(self, path: str, **query: str) -> None:
        """Posts to one server after the other."""
        self.loop.run(self._post_all(path, query))

    async def _post_all(self, path: str, query: dict[str, str]) -> None:
        for server in self.servers:
            await server.post(path, self.settings.update_seconds, **query)

    async def _disconnect(self) -> None:
        for server in self.servers:
            await server.close()

    def _addresses(self) -> tuple[str, ...]:
        settings = self.settings
        if settings.urls:
            return settings.urls
        self._ports = [hold_port() for _ in range(settings.servers)]  # for as long as servers start
        return tuple(f"http://127.0.0.1:{held.getsockname()[1]}" for held in self._ports)

    async def _connect(self, urls: Sequence[str]) -> None:
        self.servers = tuple(Server(f"server {k}", url) for k, url in enumerate(urls))
        self.pool = Pool(self.servers, self.settings.max_requests, lambda server: None)
        self.sampler = Sampler(
            pool=self.pool,
            wire=self._wire,
            images=ImageSender(seconds=self.settings.request_seconds),
            chat=self.policy.chat,
            seconds=self.settings.request_seconds,
            retries=self.settings.retries,
            current=self._current,
        )

    def _start_servers(self, urls: Sequence[str]) -> None:
        assert self.transfer is not None
        commands = []
        if not self.settings.urls:
            model = self.transfer.open_folder() / "model"
            write_model(self.policy, model)
            for k, url in enumerate(urls):
                port = int(url.rpartition(":")[2])
                log = (self.place.folder or model.parent) / LOG.format(k)
                context = self.place.context
                self.servers[k].log = log
                commands.append(
                    server_command(self.settings, self.policy, model, k, port, log, context)
                )
        self.supervisor = Supervisor(
            self.settings, self.servers, commands, self.pool, self.place.say, self.transfer
        )
        self.pool.on_lost = self.supervisor.lost
        self.loop.run(self.supervisor.start())


def make_transfer(settings: Settings, policy: Policy, run: str) -> Transfer:
    """The way of the weights that the settings choose."""
    if settings.transfer == "broadcast":
        return WeightBroadcast(policy, run)
    return WeightFiles(policy, settings.folder, run, adapters=settings.lora == "adapter")
