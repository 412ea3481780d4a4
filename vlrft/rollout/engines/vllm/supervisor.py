"""Starts servers, gives them the weights, watches them, and brings those back that are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from signal import Signals
from time import monotonic

from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from vlrft.rollout.engines.vllm.command import ServerCommand
from vlrft.rollout.engines.vllm.pool import Pool
from vlrft.rollout.engines.vllm.server import DeadServer, LostServer, Server, State
from vlrft.rollout.engines.vllm.settings import Settings
from vlrft.rollout.engines.vllm.transfer import Transfer, Update
from vlrft.rollout.engines.vllm.update import send_update
from vlrft.rollout.engines.vllm.waits import SilenceLines
from vlrft.schema.errors import ServerError
from vlrft.workers.server_process import ServerProcess

WATCH_SECONDS = 1.0  # between looks at the processes
END_SECONDS, END_LOOKS = 1.0, 10  # for the end of a process whose connection broke
LONGEST_PAUSE = 30.0  # between two tries
SIGNALS = {128 + signal.value: signal.name for signal in Signals}  # by exit code


class Supervisor:
    """Controls the servers of a run, on rank 0. Used by the thread of one loop."""

    def __init__(
        self,
        settings: Settings,
        servers: Sequence[Server],
        commands: Sequence[ServerCommand],
        pool: Pool,
        say: Callable[[str], object],
        transfer: Transfer,
    ) -> None:
        """`commands`: of the servers that are started here, in order; empty: they run already. `transfer`: the way of the weights."""
        self.settings, self.servers, self.pool, self.say = settings, servers, pool, say
        self.transfer = transfer
        self.commands = dict(zip(servers, commands, strict=False))
        self.processes: dict[Server, ServerProcess] = {}
        self.update: Update | None = None
        self.revivals: dict[Server, asyncio.Task[None]] = {}
        self.restarts = dict.fromkeys(self.commands, 0)  # of the servers that are started here
        self.watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts the servers, or waits for those that run already. Raises ServerError."""
        for server in self.servers:
            self._start_process(server)
        self.watch = asyncio.ensure_future(self._watch())
        await asyncio.gather(*(self._wait_started(server) for server in self.servers))

    async def push(self, update: Update) -> None:
        """Loads the weights into every server that is there. One that fails is brought back meanwhile, and one that is coming
        back gets them then; raises ServerError where no server has the weights in the end."""
        await self.pool.set_open(False)
        self.update = update
        present = [server for server in self.servers if server not in self.revivals]
        await asyncio.gather(*(self._push_to(server) for server in present))
        while not any(s.state is State.READY for s in self.servers):
            if not self.revivals or self.pool.hopeless:
                raise ServerError(self.pool.describe())
            await asyncio.wait(self.revivals.values(), return_when=asyncio.FIRST_COMPLETED)
        await self.pool.set_open(True)

    def lost(self, server: Server) -> None:
        """Brings a lost server back, in the background."""
        self._begin_revival(server)

    async def close(self) -> None:
        """Ends the processes, also after an error."""
        for task in (self.watch, *self.revivals.values()):
            if task is not None:
                task.cancel()
        processes, self.processes = list(self.processes.values()), {}
        await asyncio.gather(*(asyncio.to_thread(process.stop) for process in processes))

    def _start_process(self, server: Server) -> None:
        server.base, server.adapter = "", None  # one at an address may have been started again, too
        server.leave_group()
        command = self.commands.get(server)
        if command is not None:
            self.processes[server] = command.start()

    async def _wait_started(self, server: Server) -> None:
        """Waits until a server that was just started can be asked. Raises LostServer, with the last lines of its log."""
        ready = asyncio.ensure_future(server.wait_ready(self.settings.start_seconds))
        ended = asyncio.ensure_future(self._wait_ended(server))
        try:
            await asyncio.wait({ready, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                raise LostServer(self._describe_end(server))
            ready.result()
            await server.post(
                "/init_weight_transfer_engine", self.settings.update_seconds, {"init_info": {}}
            )
        finally:
            ready.cancel()
            ended.cancel()

    async def _wait_ended(self, server: Server) -> None:
        process = self.processes.get(server)
        while process is None or process.exit_code is None:
            await asyncio.sleep(WATCH_SECONDS / 4)

    def _describe_end(self, server: Server) -> str:
        process = self.processes[server]
        code = process.exit_code or 0
        how = SIGNALS.get(code, f"exit code {code}")
        return f"{server} has ended ({how}); last lines of {process.log}: {process.last_lines() or 'none'}"

    async def _push_to(self, server: Server) -> None:
        """Loads the weights into one server, or begins to bring it back."""
        assert self.update is not None
        if server.state in (State.LOST, State.GIVEN_UP):
            if server.state is State.LOST or not self._is_worn_out(server):
                self._begin_revival(server)
            return
        await self.pool.set_state(server, State.UPDATING)
        try:
            await self._try_update(server)
        except ServerError as e:
            await self._lose(server, self._reason(server, e))
            return
        if server.state is State.UPDATING:
            await self.pool.set_state(server, State.READY)

    async def _lose(self, server: Server, reason: str) -> None:
        """Marks a server as lost, unless the watch was faster."""
        if server.state in (State.READY, State.UPDATING):
            await self.pool.set_state(server, State.LOST, reason)

    async def _try_update(self, server: Server) -> None:
        """Loads the weights, again after a failure unless the server has ended or is dead."""

        def may_succeed(error: LostServer) -> bool:
            return not (isinstance(error, DeadServer) or self._has_ended(server))

        await self._again(may_succeed)(self._update, server)

    async def _update(self, server: Server) -> None:
        assert self.update is not None
        seconds = self.settings.update_seconds
        await send_update(server, self.update, self.transfer, self.pool, seconds)

    def _again(self, may_succeed: Callable[[LostServer], bool]) -> AsyncRetrying:
        """Tries again while a server is lost, with growing pauses."""
        return AsyncRetrying(
            retry=retry_if_exception(lambda e: isinstance(e, LostServer) and may_succeed(e)),
            stop=stop_after_attempt(self.settings.retries + 1),
            wait=wait_random_exponential(multiplier=0.1, max=LONGEST_PAUSE),
            reraise=True,
        )

    def _has_ended(self, server: Server) -> bool:
        process = self.processes.get(server)
        return process is not None and process.exit_code is not None

    async def _wait_for_end(self, server: Server) -> None:
        """Where a connection broke, the process that is about to end says why."""
        process = self.processes.get(server)
        for _ in range(END_LOOKS):
            if process is None or process.exit_code is not None:
                return
            await asyncio.sleep(END_SECONDS / END_LOOKS)

    def _reason(self, server: Server, error: object) -> str:
        if self._has_ended(server):
            return self._describe_end(server)
        unforeseen = isinstance(error, Exception) and not isinstance(error, ServerError)
        return f"{type(error).__name__}: {error}" if unforeseen else str(error)

    def _is_worn_out(self, server: Server) -> bool:
        return self.restarts.get(server, -1) >= self.settings.max_restarts

    def _begin_revival(self, server: Server) -> None:
        if server in self.revivals:  # it has been lost again meanwhile, and is tried again
            return
        task = asyncio.ensure_future(self._revive(server))
        self.revivals[server] = task
        task.add_done_callback(lambda done: self._end_revival(server, done))

    def _end_revival(self, server: Server, done: asyncio.Task[None]) -> None:
        del self.revivals[server]
        if not done.cancelled() and server.state is State.LOST:
            self._begin_revival(server)

    async def _revive(self, server: Server) -> None:
        """Starts a lost server again, or waits until it answers, and gives it the weights; or gives it up, whatever goes wrong:
        completions would wait for it for ever."""
        if server.state is State.LOST:
            await self._wait_for_end(server)
            server.reason = self._reason(server, server.reason)
            self.say(f"{server.reason}; its completions are sampled again")
        error: object = server.reason
        try:
            if not self._is_worn_out(server):
                await self._again(lambda _: not self._is_worn_out(server))(self._bring_back, server)
                self.say(f"{server} is back, with the current weights")
                return
        except Exception as e:
            error = e
        often = ""
        if self._is_worn_out(server):
            often = f" for the rest of the run, after {self.restarts[server]} restarts (rollout.engine.max_restarts)"
        reason = f"{server} is given up{often}: {self._reason(server, error)}"
        await self.pool.set_state(server, State.GIVEN_UP, reason)
        self.say(reason)

    async def _bring_back(self, server: Server) -> None:
        process = self.processes.pop(server, None)
        await self.pool.set_state(server, State.STARTING)
        if process is not None:
            await asyncio.to_thread(process.stop)  # one that hangs, too
        if server in self.restarts:
            self.restarts[server] += 1
        self._start_process(server)
        await self._wait_started(server)
        sent = None
        while sent is not self.update:  # a step may have ended meanwhile
            await self.pool.set_state(server, State.UPDATING)
            sent = self.update
            await self._update(server)
            await self.pool.set_state(server, State.READY)

    async def _watch(self) -> None:
        """Reports processes that end, so that nobody waits for their answers, and says which servers are silent."""
        silences = SilenceLines()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            for server in self.servers:
                if self._has_ended(server):
                    await self._lose(server, self._describe_end(server))
                if line := silences.due(server, monotonic()):
                    limit = self.settings.request_seconds
                    self.say(
                        f"{line}; it counts as lost when one takes {limit:g} s (rollout.engine.request_seconds)"
                    )
