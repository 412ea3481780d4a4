"""`vlrft launch`: several ranks on this machine, as torchrun starts them, and one message when one of them is lost."""

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

from vlrft.distributed.watchdog import GO_ON, START, STOP, read, where

POLL = 0.1  # seconds between two looks at the ranks
SETTLE = 0.5  # seconds in which ranks that fail together fail
PATIENCE = 3.0  # seconds that a rank has to end when it is asked to
TAIL = 20  # lines of a failed rank that are shown


def launch(arguments: Sequence[str], ranks: int) -> int:
    """Runs `vlrft ARGUMENTS` in so many processes; returns the exit code: 0, or that of the first that failed.

    The first rank has this terminal, the others' output is shown when they fail.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the ranks are ended, too
    store = _store()
    with tempfile.TemporaryDirectory(prefix="vlrft-ranks-") as folder:
        outputs = [Path(folder) / f"{rank}.txt" for rank in range(ranks)]
        running = [_start(arguments, r, ranks, store.port, outputs[r]) for r in range(ranks)]
        try:
            return _watched(running, outputs, store)
        finally:
            _end(running)


def _store() -> Any:
    """Where the ranks meet: this process keeps it, so that no rank takes it along when it dies."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    wait = timedelta(minutes=5)
    return TCPStore("localhost", 0, is_master=True, wait_for_workers=False, timeout=wait)


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


def _watched(
    running: Sequence[subprocess.Popen[bytes]], outputs: Sequence[Path], store: Any
) -> int:
    while True:
        time.sleep(POLL)
        codes = [process.poll() for process in running]
        if any(codes):
            time.sleep(SETTLE)
            codes = [process.poll() for process in running]
            return tell(codes, outputs, store)
        if None not in codes:
            return 0


def tell(codes: Sequence[int | None], outputs: Sequence[Path], store: Any) -> int:
    """Says what became of the first rank that failed: first those that were killed, or that left as if all were well, for
    others fail because of them."""
    if store.check([STOP]):  # a watchdog has judged
        verdict = json.loads(store.get(STOP))
        if verdict["by"] != 0:  # what the first rank says is seen
            print(f"vlrft: {verdict['said']}", file=sys.stderr)
        return 1
    killed = [rank for rank, code in enumerate(codes) if code and code < 0]
    left = [rank for rank, code in enumerate(codes) if code == 0]
    failed = killed or left or [rank for rank, code in enumerate(codes) if code]
    rank, code = failed[0], codes[failed[0]] or 0
    how = "left before the others" if code == 0 else "failed"
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else how
    if rank != 0 and code > 0:  # the first rank has spoken for itself
        lines = outputs[rank].read_text(errors="replace").splitlines()[-TAIL:]
        print("\n".join(f"rank {rank}: {line}" for line in lines), file=sys.stderr)
    told = read(store, rank)
    if told is not None and (told["step"] or told["phase"] != START):
        print(f"vlrft: rank {rank} {how}: {where(told)}; {GO_ON}", file=sys.stderr)
    elif code <= 0:
        print(f"vlrft: rank {rank} {how} before its first step", file=sys.stderr)
    return max(code, 1)


def _end(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ends the ranks that are left, with the processes that they started."""
    for kind, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, PATIENCE)):
        left = [process for process in running if process.poll() is None]
        for process in left:
            os.killpg(process.pid, kind)
        end = time.monotonic() + patience
        while left and time.monotonic() < end:
            time.sleep(POLL)
            left = [process for process in left if process.poll() is None]
