"""The launcher and signals, with small processes in the place of ranks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from vlrft.distributed import launcher
from vlrft.distributed.interrupts import Interrupted, interrupt

RANK = """
import signal, sys, time
def save(number, frame):
    open(sys.argv[1], "w").write(str(number))
    sys.exit(128 + number)
def fail(number, frame):
    sys.exit("vlrft: reward bad raised" if sys.argv[1].endswith("rank1") else 128 + number)
handlers = {"saves": save, "fails": fail, "ignores": signal.SIG_IGN}
signal.signal(signal.SIGTERM, handlers[sys.argv[2]])
open(sys.argv[1] + ".ready", "w")
time.sleep(60)
"""


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[subprocess.Popen[bytes]]:
    """Replaces the ranks of a launch, whose arguments are `saves`, `ignores` or `fails`; returns their processes."""
    started: list[subprocess.Popen[bytes]] = []

    def start(
        arguments: list[str], rank: int, ranks: int, port: int, output: Path
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-S", "-c", RANK, str(tmp_path / f"rank{rank}"), arguments[0]]
        with output.open("wb") as file:
            started.append(subprocess.Popen(command, start_new_session=True, stderr=file))
        return started[-1]

    monkeypatch.setattr(launcher, "_start", start)
    monkeypatch.setattr(launcher, "POLL", 0.01)
    return started


def send_when_ready(folder: Path, times: int) -> None:
    """Sends SIGTERM to this process `times` times, once both ranks have started."""

    def send() -> None:
        while not all((folder / f"rank{rank}.ready").exists() for rank in (0, 1)):
            threading.Event().wait(0.01)
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait(0.05)

    threading.Thread(target=send, daemon=True).start()


def test_a_first_signal_reaches_every_rank_and_the_launcher_waits_for_them(
    ranks: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    send_when_ready(tmp_path, 1)
    assert launcher.launch(["saves"], 2) == 143
    assert [process.poll() for process in ranks] == [143, 143]
    assert [(tmp_path / f"rank{k}").read_text() for k in (0, 1)] == ["15", "15"]


def test_a_rank_that_fails_while_the_run_stops_is_reported(
    ranks: list[subprocess.Popen[bytes]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    send_when_ready(tmp_path, 1)
    assert launcher.launch(["fails"], 2) == 1
    assert [process.poll() for process in ranks] == [143, 1]
    assert capsys.readouterr().err == "rank 1: vlrft: reward bad raised\n"


def test_a_second_signal_ends_ranks_that_do_not_stop(
    ranks: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    old = signal.signal(signal.SIGTERM, interrupt)  # as the command does
    send_when_ready(tmp_path, 2)
    try:
        with pytest.raises(Interrupted):
            launcher.launch(["ignores"], 2)
    finally:
        signal.signal(signal.SIGTERM, old)
    assert all(process.wait() < 0 for process in ranks)
    assert not (tmp_path / "rank0").exists()
