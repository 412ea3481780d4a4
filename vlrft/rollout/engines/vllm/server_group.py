"""The sender's end of a broadcast: a process group of the first rank and the workers of one server.

The group is made from a TCPStore and touches no default group, so the ranks of the run go on with theirs. Its other end is
`packages/vlrft-vllm/vlrft_vllm/weight_group.py`.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import urlsplit

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from vlrft.rollout.engines.vllm.loop import see_error
from vlrft.rollout.engines.vllm.server import LostServer, Server
from vlrft.schema.errors import ServerError
from vlrft.schema.short_message import short_message

JOIN_SECONDS = 120.0  # for the workers of a server that is there
TENSOR_SECONDS = 60.0  # for a worker that has asked for a tensor to take it, with gloo
ASK_SECONDS = 0.002  # between looks whether the workers ask for the next one
ASKED = "vlrft/asked"  # in the store, for each worker: the number of tensors that it has asked for
LEFT = "vlrft/left"  # in the store: the number of workers that have left
REASON_SECONDS = 2.0  # for a server to say why it left a broadcast
T = TypeVar("T")


class ServerGroup:
    """The first rank, which sends, and the workers of a server. Made by `meet`."""

    def __init__(
        self, store: TCPStore, size: int, device: torch.device, join_seconds: float, seconds: float
    ) -> None:
        """Waits for the workers. `device`: from which tensors are sent, by NCCL where it is a GPU, else by gloo. `join_seconds`: for
        the workers to come; `seconds`: for each wait later."""
        self.device = device
        if device.type == "cuda":
            # Its watchdog ends a process whose broadcast takes longer; a server's answer is not waited for as long.
            options = dist.ProcessGroupNCCL.Options()
            options._timeout = timedelta(seconds=2 * seconds)
            self._group: Any = dist.ProcessGroupNCCL(store, 0, size, options)
        else:
            self._group = dist.ProcessGroupGloo(store, 0, size, timedelta(seconds=join_seconds))
            self._group.set_timeout(timedelta(seconds=min(seconds, TENSOR_SECONDS)))
        self._store = store  # the workers' connections end with it
        self._workers, self._seconds, self._sent = range(1, size), seconds, 0
        self._left = threading.Event()

    def send(self, tensors: Iterable[Tensor]) -> None:
        """Broadcasts the tensors, each when every worker asks for it. Raises RuntimeError where a worker leaves or does not ask in time,
        and after `close`."""
        for tensor in tensors:
            self._wait_asked()
            self._group.broadcast(tensor.to(self.device), 0).wait()
            self._sent += 1

    def _wait_asked(self) -> None:
        """Waits here, and not in a broadcast, which nothing ends before its time limit: the process could not end cleanly either."""
        deadline = monotonic() + self._seconds
        while any(
            self._store.add(f"{ASKED}/{worker}", 0) <= self._sent for worker in self._workers
        ):
            if self._left.wait(ASK_SECONDS):
                raise RuntimeError("the group was left before the broadcast was whole")
            if self._store.add(LEFT, 0):
                raise RuntimeError("a worker left before the broadcast was whole")
            if monotonic() > deadline:
                raise RuntimeError(
                    f"no worker asked for the next tensor within {self._seconds:g} s"
                )

    def close(self) -> None:
        """Leaves the group; a `send` that waits for a worker ends."""
        self._left.set()
        self._group.abort()


async def meet(server: Server, device: torch.device, seconds: float) -> ServerGroup:
    """The group of this process and a server's workers. `seconds`: for each wait of it; they meet in JOIN_SECONDS at most, and
    both ends give up then. Raises LostServer or Refused where they do not meet."""
    size = 1 + await count_workers(server)
    limit = min(seconds, JOIN_SECONDS)
    address, store = open_store(server, limit)
    meeting = {
        "address": address,
        "port": store.port,
        "size": size,
        "backend": "nccl" if device.type == "cuda" else "gloo",
        "join_seconds": limit,
        "seconds": seconds,
    }
    asked = server.post("/init_weight_transfer_engine", limit, {"init_info": meeting})
    return await together(server, lambda: ServerGroup(store, size, device, limit, seconds), asked)


async def count_workers(server: Server) -> int:
    """How many workers a server has. Raises LostServer or Refused where it does not say."""
    size = (await server.get("/get_world_size")).get("world_size")
    if not isinstance(size, int) or size < 1:
        raise LostServer(
            f"{server}: /get_world_size answered no JSON with a world_size of 1 or more; "
            "is the address that of a vLLM server with VLLM_SERVER_DEV_MODE=1?"
        )
    return size


def open_store(server: Server, seconds: float) -> tuple[str, TCPStore]:
    """A store in which a server's workers meet this process, and its address for them. `seconds`: for each wait. Raises LostServer."""
    try:
        address = own_address(server.url)
        return address, TCPStore(address, 0, None, True, timedelta(seconds=seconds), False)
    except (OSError, RuntimeError) as e:
        raise LostServer(
            f"{server}: no store for the broadcast of weights could be opened ({short_message(e)})"
        ) from None


async def together(server: Server, act: Callable[[], T], asked: Coroutine[Any, Any, object]) -> T:
    """The result of `act`, which waits in a thread for what the server does as it is `asked`. Raises LostServer or Refused as soon as
    one of them fails; the server's reason goes before that of a connection that broke."""
    acting = asyncio.ensure_future(in_thread(act))
    answer = asyncio.ensure_future(asked)
    for task in (acting, answer):
        task.add_done_callback(see_error)  # of two that fail only the first is raised
    try:
        await asyncio.wait({acting, answer}, return_when=asyncio.FIRST_EXCEPTION)
        if not answer.done():
            await asyncio.wait({answer}, timeout=REASON_SECONDS)
        if answer.done():
            answer.result()
        return await acting
    except RuntimeError as e:
        if isinstance(e, ServerError):
            raise
        raise LostServer(
            f"{server}: the broadcast of weights failed ({short_message(e)})"
        ) from None
    finally:
        answer.cancel()
        acting.cancel()


async def in_thread(act: Callable[[], T]) -> T:
    """The result of a call in a thread of its own, which does not keep the process from ending while it waits."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(put: Callable[[Any], None], value: object) -> None:
        if not future.done():  # given up meanwhile
            put(value)

    def run() -> None:
        with suppress(RuntimeError):  # the loop was closed meanwhile
            try:
                result = act()
            except Exception as e:
                loop.call_soon_threadsafe(finish, future.set_exception, e)
            else:
                loop.call_soon_threadsafe(finish, future.set_result, result)

    threading.Thread(target=run, name="vlrft-broadcast", daemon=True).start()
    return await future


def own_address(url: str) -> str:
    """The address of this machine from which it reaches a server, and under which the server reaches it."""
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(place)  # sends nothing
        return str(probe.getsockname()[0])
