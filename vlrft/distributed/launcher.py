"""`vlrft launch`: several ranks on this machine, started as torchrun starts them, and one message when one fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from vlrft.distributed.interrupts import ENDED_BY_SIGNAL, StopRequest, deferred_signals
from vlrft.distributed.watchdog import HOW_TO_RESUME, START, STOP_KEY, describe, read_status

POLL = 0.1  # seconds between checks of the processes
SETTLE = 0.5  # seconds to wait after a failure for others with the same cause
EXIT_TIMEOUT = 3.0  # seconds that a rank has to exit after a signal
COMPLETE = (
    None,
    0,
    3,
)  # exit codes of ranks that still run, or whose run is complete: 3, without any reward
TAIL = 20  # lines shown of a failed rank's output


def launch(arguments: Sequence[str], ranks: int) -> int:
    """Runs `vlrft ARGUMENTS` in `ranks` processes; returns 0 or the exit code of the first that failed.

    Rank 0 writes to this terminal; the output of another rank is shown when it fails. A first signal is passed on to the
    ranks, which save a checkpoint after their current step; a second one ends them.
    """
    store = _store()
    with tempfile.TemporaryDirectory(prefix="vlrft-ranks-") as folder:
        outputs = [Path(folder) / f"{rank}.txt" for rank in range(ranks)]
        running = [_start(arguments, r, ranks, store.port, outputs[r]) for r in range(ranks)]
        try:
            with deferred_signals(str) as request:  # rank 0 says it
                return _wait(running, outputs, store, request)
        finally:
            _end(running)


def _store() -> Any:
    """The store that the ranks connect through, in this process, so that it outlives every rank."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    timeout = timedelta(minutes=5)
    return TCPStore("localhost", 0, is_master=True, wait_for_workers=False, timeout=timeout)


def _start(
    arguments: Sequence[str], rank: int, ranks: int, port: int, output: Path
) -> subprocess.Popen[bytes]:
    threads = max((os.cpu_count() or 1) // ranks, 1)
    env = {
        "OMP_NUM_THREADS": str(threads),
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    command = [sys.executable, "-m", "vlrft", *arguments]
    if rank == 0:
        return subprocess.Popen(command, env=env, start_new_session=True)
    with output.open("wb") as file:
        return subprocess.Popen(
            command, env=env, start_new_session=True, stdout=file, stderr=subprocess.STDOUT
        )


def _wait(
    running: Sequence[subprocess.Popen[bytes]],
    outputs: Sequence[Path],
    store: Any,
    request: StopRequest,
) -> int:
    while True:
        time.sleep(POLL)
        if request.number:
            _stop(running, request.number)
            return _report_stop(running, outputs, store, request.number)
        codes = [process.poll() for process in running]
        if any(code not in COMPLETE for code in codes):
            time.sleep(SETTLE)
            codes = [process.poll() for process in running]
            return report_failure(codes, outputs, store)
        if None not in codes:
            return max(code or 0 for code in codes)


def _stop(running: Sequence[subprocess.Popen[bytes]], number: int) -> None:
    """Passes a signal on to all ranks, and waits for them: they agree on the step after which they stop."""
    for process in running:
        process.send_signal(number)
    while all(process.poll() is None for process in running):
        time.sleep(POLL)
    end = time.monotonic() + EXIT_TIMEOUT
    while any(process.poll() is None for process in running) and time.monotonic() < end:
        time.sleep(POLL)


def _report_stop(
    running: Sequence[subprocess.Popen[bytes]], outputs: Sequence[Path], store: Any, number: int
) -> int:
    """The exit code of a command that the signal has ended; that of `report_failure` where a rank failed in the meantime."""
    stopped = (*COMPLETE, ENDED_BY_SIGNAL + number, -number)
    codes = [process.poll() for process in running]
    if all(code in stopped for code in codes):
        return ENDED_BY_SIGNAL + number
    return report_failure([None if c in stopped else c for c in codes], outputs, store)


def report_failure(codes: Sequence[int | None], outputs: Sequence[Path], store: Any) -> int:
    """Prints which rank failed first, and its step and phase; returns its exit code.

    A rank that was killed, or that exited with code 0 before its work was done, is reported before ranks with an error, which it
    may have caused.
    """
    if store.check([STOP_KEY]):  # a watchdog has ended the run
        stop = json.loads(store.get(STOP_KEY))
        if stop["rank"] != 0:  # rank 0 has printed its own message here
            print(f"vlrft: {stop['message']}", file=sys.stderr)
        return 1
    killed = [rank for rank, code in enumerate(codes) if code and code < 0]
    statuses = [read_status(store, rank) for rank in range(len(codes))]
    done = [status is not None and status["ended"] for status in statuses]
    exited = [rank for rank, code in enumerate(codes) if code == 0 and not done[rank]]
    failed = killed or exited or [rank for rank, code in enumerate(codes) if code]
    rank, code = failed[0], codes[failed[0]] or 0
    how = "exited before the others" if code == 0 else "failed"
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else how
    if rank != 0 and code > 0:  # the output of rank 0 is already on the terminal
        lines = outputs[rank].read_text(errors="replace").splitlines()[-TAIL:]
        print("\n".join(f"rank {rank}: {line}" for line in lines), file=sys.stderr)
    status = statuses[rank]
    if done[rank]:
        print(
            f"vlrft: rank {rank} {how} after the last step; checkpoint and report are written",
            file=sys.stderr,
        )
    elif status is not None and (status["step"] or status["phase"] != START):
        print(f"vlrft: rank {rank} {how}: {describe(status)}; {HOW_TO_RESUME}", file=sys.stderr)
    elif code <= 0:
        print(f"vlrft: rank {rank} {how} before its first step", file=sys.stderr)
    return max(code, 1)


def _end(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ends the remaining ranks and the processes that they started. The first signal is none on which a rank would save its
    state, for which it would wait for ranks that are gone."""
    for number in (signal.SIGUSR1, signal.SIGKILL):
        alive = [process for process in running if process.poll() is None]
        for process in alive:
            os.killpg(process.pid, number)
        end = time.monotonic() + EXIT_TIMEOUT
        while alive and time.monotonic() < end:
            time.sleep(POLL)
            alive = [process for process in alive if process.poll() is None]
