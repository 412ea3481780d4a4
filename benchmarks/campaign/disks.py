"""Disks that fill up while a run writes, and files that may not grow; then there is room again and it is resumed."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from random import Random

from benchmarks.campaign.case import Finding, Kind, Plan, Result
from benchmarks.campaign.kills import trap
from benchmarks.campaign.outcome import judge_end, judge_equal, shown_line
from benchmarks.campaign.process import Setting, run
from benchmarks.campaign.runs import CONFIG, VARIANTS, expected_hashes, finish

NAMES = ("plain", "reference")  # variants that need no file beside their config
LARGE = "size=64m,nr_inodes=9999"


def draw(random: Random) -> Plan:
    """`size`: bytes of the disk or of a file, where a finished run takes 600 kB."""
    means = random.choice(("size", "size", "size", "inodes", "read-only", "file size"))
    return {
        "variant": random.choice(NAMES),
        "means": means if os.geteuid() == 0 else "file size",  # only root mounts
        "size": int(2 ** random.uniform(12, 20)),
        "inodes": random.randint(2, 90),
    }


def carry_out(plan: Plan, folder: Path) -> Result:
    disk, variant, means = folder / "disk", plan["variant"], plan["means"]
    disk.mkdir()
    options = {"size": f"size={plan['size']}", "inodes": f"nr_inodes={plan['inodes']}"}
    mounted = means != "file size"
    if mounted:
        mount("-t", "tmpfs", "-o", options.get(means, LARGE), "tmpfs", str(disk))
    try:
        arguments = ["train", str(CONFIG), *VARIANTS[variant], "--out", "run"]
        if means == "read-only":
            kill = Setting(prepare=trap({"phase": "save", "nth": 3, "delay": 0.0}, signal.SIGKILL))
            run(arguments, disk, log=folder / "log", setting=kill)
            mount("-o", "remount,ro", str(disk))
            arguments.append("--resume")
        setting = Setting(file_size=None if mounted else plan["size"])
        ended = run(arguments, disk, log=folder / "log", setting=setting)
        findings = judge_end(ended)
        if mounted:
            mount("-o", f"remount,rw,{LARGE}", str(disk))
        ends = finish(disk, variant, log=folder / "log")
        for end in ends:
            findings += judge_end(end)
        if ends[-1].code != 0:
            text = f"cannot be resumed: {shown_line(ends[-1])}"
            findings.append(Finding(outcome="lost", text=text))
        else:
            findings += judge_equal(disk / "run", expected_hashes(variant))
        return Result(findings=tuple(findings), shown=shown_line(ended))
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(disk)], check=True)


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


DISKS = Kind(
    name="disks",
    doc="a disk without room or inodes, read-only, or a limit on the size of files; resumed with room",
    draw=draw,
    run=carry_out,
    share=1.0,
)
