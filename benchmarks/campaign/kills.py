"""Signals to a training at random moments, by phase or by the clock; then it is resumed and compared bit for bit."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.campaign.case import Finding, Kind, Plan, Result
from benchmarks.campaign.outcome import judge_end, judge_equal, judge_kept, shown_line, snapshot
from benchmarks.campaign.process import MARK, Child, Ended, Setting, left_processes
from benchmarks.campaign.runs import (
    VARIANTS,
    expected_hashes,
    finish,
    prepare_folder,
    start_training,
    undisturbed_seconds,
)

SIGNALS = ("KILL", "KILL", "KILL", "TERM", "INT", "HUP", "QUIT", "STOP", "nohup INT", "nohup HUP")
PHASES = (
    *(
        "evaluation",
        "data",
        "render",
        "images",
        "prefill",
        "decode",
        "choose",
        "reward",
        "advantages",
    ),
    *(
        "batch",
        "forward",
        "loss",
        "backward",
        "optimiser",
        "metrics",
        "log",
        "save",
        "save",
        "save",
    ),
)
STOPPED = 1.0  # seconds that a process is stopped before SIGCONT
FOREIGN = "notes.txt"


def draw(random: Random) -> Plan:
    return {
        "variant": random.choice(sorted(VARIANTS)),
        "kills": [_draw_kill(random) for _ in range(random.choice((1, 1, 2, 3)))],
    }


def _draw_kill(random: Random) -> dict[str, Any]:
    kill: dict[str, Any] = {"signal": random.choice(SIGNALS), "target": "trainer"}
    if random.random() < 0.15:
        return kill | {"target": "worker", "signal": "KILL", "moment": random.random()}
    if random.random() < 0.3:
        return kill | {"moment": random.random()}  # share of the undisturbed run's time
    return kill | {
        "phase": random.choice(PHASES),
        "nth": random.randint(1, 8),
        "delay": random.choice((0.0, 0.0, random.uniform(0, 0.01), random.uniform(0, 0.1))),
    }


def run(plan: Plan, folder: Path) -> Result:
    """The run is resumed after each kill, and at last left alone."""
    prepare_folder(folder)
    variant, mark = plan["variant"], folder.name
    findings: list[Finding] = []
    messages = []
    flags: tuple[str, ...] = ()
    foreign: dict[str, str] = {}
    for kill in plan["kills"]:
        ended = _train_and_kill(folder, variant, flags, kill, mark)
        findings += judge_end(ended)
        messages.append(shown_line(ended))
        checkpoint = (folder / "run/checkpoints/last").exists()
        flags = ("--resume",) if (folder / "run/config.yaml").exists() else ()
        if checkpoint and not foreign:
            (folder / "run" / FOREIGN).write_text("mine")
            foreign = {FOREIGN: snapshot(folder / "run")[FOREIGN]}
    ends = finish(folder, variant)
    for end in ends:
        findings += judge_end(end)
    if ends[-1].code != 0:
        findings.append(Finding(outcome="lost", text=f"cannot be resumed: {shown_line(ends[-1])}"))
    else:
        findings += judge_equal(folder / "run", expected_hashes(variant))
        findings += judge_kept(folder / "run", foreign)
    if left := left_processes(mark):
        findings.append(Finding(outcome="unclear", text=f"leaves {len(left)} processes"))
    return Result(findings=tuple(findings), shown="; ".join(filter(None, messages)))


def _train_and_kill(
    folder: Path, variant: str, flags: tuple[str, ...], kill: dict[str, Any], mark: str
) -> Ended:
    nohup = kill["signal"].startswith("nohup ")
    number = getattr(signal, f"SIG{kill['signal'].removeprefix('nohup ')}")
    moment = kill.get("moment")
    setting = Setting(
        env={MARK: mark},
        ignored=(number,) if nohup else (),
        prepare=(lambda: None) if moment is not None else trap(kill, number),
    )
    child = start_training(folder, variant, *flags, setting=setting)
    if moment is None:
        child.sent.append(number)
    else:
        wait_until(child, moment * undisturbed_seconds(variant))
        if kill["target"] == "worker":
            for pid in children(child.pid)[:1]:
                child.send(number, pid)
                child.sent.clear()  # the trainer itself got none
        else:
            child.send(number)
    if number == signal.SIGSTOP:
        child.sent.clear()  # stopping may not end it
        _let_continue(child)
    return child.wait()


def wait_until(child: Child, seconds: float) -> None:
    while child.running() and child.elapsed() < seconds:
        time.sleep(0.005)


def children(pid: int) -> list[int]:
    """Processes that a process has started, oldest first."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    try:
        return [int(word) for word in path.read_text().split()]
    except OSError:
        return []


def _let_continue(child: Child) -> None:
    """Waits until the process is stopped or has ended, and lets it continue after a while."""
    while child.running():
        state = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "T":
            time.sleep(STOPPED)
            child.send(signal.SIGCONT)
            return
        time.sleep(0.02)


def trap(kill: dict[str, Any], number: int) -> Callable[[], None]:
    """Makes the process send itself the signal some seconds after it enters a phase for the n-th time."""

    def arm() -> None:
        from vlrft.distributed import phases

        enter = phases.phase.__enter__
        remaining = [int(kill["nth"])]

        def enter_and_die(self: phases.phase) -> None:
            enter(self)
            if self.name != kill["phase"]:
                return
            remaining[0] -= 1
            if remaining[0] == 0:
                if kill["delay"]:
                    threading.Timer(kill["delay"], os.kill, (os.getpid(), number)).start()
                else:
                    os.kill(os.getpid(), number)

        phases.phase.__enter__ = enter_and_die  # type: ignore[method-assign]

    return arm


KILLS = Kind(
    name="kills",
    doc="signals to a trainer or its worker, by phase or by the clock; resumed and compared bit for bit",
    draw=draw,
    run=run,
    share=3.0,
)
