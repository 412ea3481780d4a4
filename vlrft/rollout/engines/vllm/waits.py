"""Servers that keep a run waiting, in words: for the watchdog's verdict, and for the run's log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vlrft.rollout.engines.vllm.server import Server, State
from vlrft.workers.server_process import last_lines

SILENT_SECONDS = 30.0  # without an answer, after which a server is named beside a rank that hangs
FIRST_LINE_SECONDS = 60.0  # after which the run's log says so; again after twice as long, and so on


def describe_waits(servers: Sequence[Server], now: float) -> str:
    """The servers that do not answer: which, since when, and the last line of its log. Empty where all do. `now`: time.monotonic()."""
    return "; ".join(filter(None, (_describe(server, now) for server in servers)))


def _describe(server: Server, now: float, silent: float = SILENT_SECONDS) -> str:
    if server.state is not State.READY:
        text = f"{server} {server.state.value} for {now - server.since:.0f} s"
    elif server.in_flight and now - server.heard_at >= silent:
        text = f"{server} has answered nothing for {now - server.heard_at:.0f} s, with {server.in_flight} completions under way"
    else:
        return ""
    return text + _log_line(server.log)


def _log_line(log: Path | None) -> str:
    line = "" if log is None else last_lines(log, count=1)
    return f" (last line of {log}: {line})" if line else ""


class SilenceLines:
    """Lines for the run's log about servers that are asked and do not answer."""

    def __init__(self) -> None:
        self._next: dict[
            Server, tuple[float, float]
        ] = {}  # last answer -> silence of the next line

    def due(self, server: Server, now: float) -> str:
        """The line that is due, or nothing."""
        heard_at, limit = self._next.get(server, (server.heard_at, FIRST_LINE_SECONDS))
        if heard_at != server.heard_at:
            limit = FIRST_LINE_SECONDS
        text = "" if server.state is not State.READY else _describe(server, now, limit)
        self._next[server] = server.heard_at, 2 * limit if text else limit
        return text
