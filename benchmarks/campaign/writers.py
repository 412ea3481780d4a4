"""A second trainer on the folder of one that runs: it is refused in one line, and the first run is not disturbed."""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random

from benchmarks.campaign.case import Finding, Kind, Plan, Result
from benchmarks.campaign.kills import trap, wait_until
from benchmarks.campaign.outcome import judge_end, judge_equal, shown_line
from benchmarks.campaign.process import Setting, start
from benchmarks.campaign.runs import (
    arguments,
    expected_hashes,
    finish,
    start_training,
    undisturbed_seconds,
)

SECONDS = (
    *(("train", "--resume"), ("train", "--overwrite"), ("train",), ("report", "run")),
    ("eval", "--model", "run/checkpoints/last", "--config", "run/config.yaml", "--limit", "2"),
)  # fmt: skip


def draw(random: Random) -> Plan:
    return {
        "moment": random.random(),  # share of the undisturbed run's time
        "second": list(random.choice(SECONDS)),
        "resumed": random.random() < 0.5,  # the first is itself a resumed one
        "stop first": random.random()
        < 0.25,  # the first is stopped (SIGSTOP) while the second is there
        "kill first": random.random()
        < 0.4,  # the first dies before the second starts: the lock is free
    }


def carry_out(plan: Plan, folder: Path) -> Result:
    findings: list[Finding] = []
    flags_of_first: tuple[str, ...] = ()
    if plan["resumed"]:
        kill = {"phase": "save", "nth": 2, "delay": 0.0}
        start_training(folder, "plain", setting=Setting(prepare=trap(kill, signal.SIGKILL))).wait()
        flags_of_first = ("--resume",)
    first = start_training(folder, "plain", *flags_of_first)
    wait_until(first, plan["moment"] * undisturbed_seconds("plain"))
    if plan["kill first"]:
        first.send(signal.SIGKILL)
        first.wait()
    elif plan["stop first"]:
        first.send(signal.SIGSTOP)
    kind, *flags = plan["second"]
    trains = kind == "train"
    command = arguments("plain", *flags) if trains else [kind, *flags]
    second = start(command, folder).wait()
    findings += judge_end(second)
    if plan["stop first"] and not plan["kill first"]:
        first.send(signal.SIGCONT)
    shown = f"{' '.join(plan['second'])}: {second.code} {shown_line(second)}"
    if not plan["kill first"]:
        ended = first.wait()
        findings += judge_end(ended)
        if ended.code != 0:
            text = f"the first is disturbed: {shown_line(ended)} (second: {shown})"
            findings.append(Finding(outcome="wrong", text=text))
    if plan["kill first"] and trains and flags == ["--resume"] and second.code == 1:
        text = f"a dead trainer's folder is refused: {shown_line(second)}"
        findings.append(Finding(outcome="unclear", text=text))
    ends = finish(folder, "plain")
    findings += [finding for end in ends for finding in judge_end(end)]
    if ends[-1].code == 0:
        findings += judge_equal(folder / "run", expected_hashes("plain"))
    else:
        text = f"cannot be resumed: {shown_line(ends[-1])}"
        findings.append(Finding(outcome="lost", text=text))
    return Result(findings=tuple(findings), shown=shown)


WRITERS = Kind(
    name="writers",
    doc="a second trainer, report or evaluation in the folder of a trainer that runs or has died",
    draw=draw,
    run=carry_out,
    share=1.0,
)
