"""A fake server's life and faults. Only the standard library is imported."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from vlrft.testing.fake_completions import Body
from vlrft.testing.json_server import JsonServer

S = TypeVar("S", bound="FakeServer")


@dataclass
class Faults:
    """Faults of the server from now on. A count is used up."""

    die_after: int | None = None
    """Requests for completions after which the server is gone, in a process without cleaning up."""
    die_in_update: bool = False
    engine_dies_in_update: bool = False
    """vLLM's engine process dies and its API process lives on: the update is never answered, and `/health` says so."""
    leave_broadcast: int | None = None
    """Tensors of the next broadcast after which the worker leaves it."""
    hang: bool = False
    """Completions are not answered until it is false."""
    hang_after: int | None = None
    """Tokens after which completions wait, until it is None or they are aborted."""
    refuse_updates: int = 0
    """Updates that fail with 500."""
    hang_in_update: bool = False
    version: str | None = None
    """The weights' version in place of the true one."""
    change_prompt: bool = False
    """Answers state another prompt."""
    ignore_bans: bool = False
    refuse_reset: bool = False
    keep_no_images: bool = False
    """Images that are sent on their own are said to be too large."""
    fail: dict[str, int] = field(default_factory=dict[str, int])
    """Path -> the number of its next calls that fail with 500."""


class FakeServer:
    """A server in threads of this process while the `with` block lasts. A subclass has the routes, `get` and `post`."""

    def __init__(self, http: JsonServer, *, exits: bool) -> None:
        """`exits`: a server that dies ends the process."""
        self._http, self.exits = http, exits
        self.faults = Faults()
        self.calls: list[tuple[str, Body]] = []  # path and body of every POST, in order
        self.changed = threading.Condition()
        self.gone = False
        self.engine_dead = False

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self: S) -> S:
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()
        self._thread.join()

    def serve(self) -> None:
        """Serves in this thread, for ever."""
        self._http.serve_forever(0.05)

    def set(self, **faults: object) -> None:
        """Sets attributes of `faults` and wakes requests that wait."""
        with self.changed:
            for name, value in faults.items():
                if not hasattr(self.faults, name):
                    raise AttributeError(name)
                setattr(self.faults, name, value)
            self.changed.notify_all()

    def wait_until(self: S, reached: Callable[[S], bool], seconds: float = 20.0) -> bool:
        """Waits for a state, such as `lambda server: server.running == 3`."""
        with self.changed:
            return self.changed.wait_for(lambda: reached(self), seconds)

    def paths(self) -> list[str]:
        """The paths that were posted to, in order."""
        return [path for path, _ in self.calls]

    def die(self) -> None:
        """Ends the server: requests that wait are cut off, and the port is closed."""
        if self.exits:
            os._exit(9)
        with self.changed:
            if self.gone:
                return
            self.gone = True
            self.changed.notify_all()
        threading.Thread(target=self._close, daemon=True).start()

    def _close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
