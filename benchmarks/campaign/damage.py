"""One file of a run's folder is damaged; then the run is resumed, reported, evaluated or replaced."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path
from random import Random

from benchmarks.campaign.case import Finding, Kind, Plan, Result
from benchmarks.campaign.outcome import judge_end, judge_equal, judge_kept, shown_line, snapshot
from benchmarks.campaign.process import run
from benchmarks.campaign.runs import SCRATCH, arguments, expected_hashes, undisturbed_run

DAMAGES = (
    "cut",
    "flip",
    "empty",
    "remove",
    "folder",
    "dangling",
    "junk",
    "foreign",
    "append",
    "nan",
)
COMMANDS = ("resume", "resume", "resume", "report", "eval", "overwrite", "compare")
FOREIGN = ("thesis.txt", "data/rows.csv")


def draw(random: Random) -> Plan:
    return {
        "file": random.random(),
        "damage": random.choice(DAMAGES),
        "place": random.random(),
        "bit": random.randrange(8),
        "unfinished": random.random() < 0.5,  # the last checkpoint and what follows it are missing
        "command": random.choice(COMMANDS),
    }


def carry_out(plan: Plan, folder: Path) -> Result:
    run_folder = folder / "run"
    shutil.copytree(undisturbed_run("plain") / "run", run_folder, symlinks=True)
    if plan["unfinished"]:
        _forget_last_step(run_folder)
    for name in FOREIGN:
        (run_folder / name).parent.mkdir(exist_ok=True)
        (run_folder / name).write_text("mine")
    files = sorted(p for p in run_folder.rglob("*") if p.is_file() and p.parent.name != "images")
    ours = [p for p in files if str(p.relative_to(run_folder)) not in FOREIGN]
    victim = run_folder / plan["name"] if "name" in plan else ours[int(plan["file"] * len(ours))]
    foreign = {name: snapshot(run_folder)[name] for name in FOREIGN}
    _damage(victim, plan)
    command = _command(plan["command"])
    ended = run(command, folder)
    findings = judge_end(ended) + judge_kept(run_folder, foreign)
    trained = plan["command"] in ("resume", "overwrite") and ended.code == 0
    if trained:
        named = (
            victim.name == "metrics.jsonl" and victim.name in ended.err
        )  # its rows are nowhere else
        hashes = (
            ("model.safetensors", "trainer/state.safetensors")
            if named
            else tuple(expected_hashes("plain"))
        )
        findings += judge_equal(
            run_folder, {name: expected_hashes("plain")[name] for name in hashes}
        )
    if (
        plan["command"] == "eval"
        and ended.code == 0
        and ended.out != evaluation(plan["unfinished"])
    ):
        text = "the evaluation's table differs from the intact run's"
        findings.append(Finding(outcome="wrong", text=text))
    name = f"{plan['damage']} {victim.relative_to(run_folder)}"
    findings = [Finding(outcome=f.outcome, text=f"{name}: {f.text}") for f in findings]
    return Result(findings=tuple(findings), shown=f"{name}: {shown_line(ended)}")


def _command(name: str) -> list[str]:
    last = "run/checkpoints/last"
    return {
        "resume": arguments("plain", "--resume"),
        "overwrite": arguments("plain", "--overwrite"),
        "report": ["report", "run"],
        "eval": ["eval", "--model", last, "--config", "run/config.yaml", "--limit", "2"],
        "compare": ["compare", "run/evals.jsonl", "run/evals.jsonl"],
    }[name]


@cache
def evaluation(unfinished: bool) -> str:
    """The output of the evaluation of the intact run."""
    folder = SCRATCH / f"evaluated_{unfinished}_{os.getpid()}"
    shutil.copytree(undisturbed_run("plain") / "run", folder / "run", symlinks=True)
    if unfinished:
        _forget_last_step(folder / "run")
    return run(_command("eval"), folder).out


def _forget_last_step(run_folder: Path) -> None:
    """Leaves the folder as a kill before the last step's save does, without its report."""
    checkpoints = run_folder / "checkpoints"
    steps = sorted(checkpoints.glob("step_*"), key=lambda p: int(p.name[5:]))
    shutil.rmtree(steps[-1])
    (checkpoints / "last").unlink()
    (checkpoints / "last").symlink_to(steps[-2].name)
    (run_folder / "report.html").unlink(missing_ok=True)


def _damage(path: Path, plan: Plan) -> None:
    content = bytearray(path.read_bytes())
    place = int(plan["place"] * len(content))
    kind = plan["damage"]
    if kind == "flip" and content:
        content[place] ^= 1 << plan["bit"]
    elif kind == "cut":
        content = content[:place]
    elif kind == "empty":
        content = bytearray()
    elif kind == "junk":
        content[place : place + 64] = bytes(range(192, 256))
    elif kind == "foreign":
        content = bytearray(b'{"not": "ours"}\n')
    elif kind == "append":
        content += b'{"step": "x"}\n'
    elif kind == "nan":
        content = bytearray(bytes(content).replace(b"0", b"NaN", 3))
    else:
        path.unlink()
        if kind == "folder":
            path.mkdir()
        elif kind == "dangling":
            os.symlink("nowhere", path)
        return
    path.write_bytes(bytes(content))


DAMAGE = Kind(
    name="damage",
    doc="a damaged file in a run's folder; resumed, reported, evaluated or replaced",
    draw=draw,
    run=carry_out,
    share=1.5,
)
