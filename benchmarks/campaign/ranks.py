"""Two ranks of which one is killed, stopped or given other settings: the run ends in one line and can be resumed."""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.campaign.case import Finding, Kind, Plan, Result
from benchmarks.campaign.kills import PHASES, trap
from benchmarks.campaign.outcome import judge_end, shown_line
from benchmarks.campaign.process import LIMIT, MARK, Ended, Setting, left_processes, start
from benchmarks.campaign.runs import CONFIG, SCRATCH

SIZE = 2
TOLERANCE = 1e-4  # relative difference of weights after other sums of gradients, which Adam's first steps magnify
LIMITS = ("ranks.heartbeat_timeout=20", "ranks.step_timeout=60")
DIFFERENCES = (
    *(
        "update.lr=1e-2",
        "rollout.temperature=2.0",
        "stages.1.steps=5",
        "seed=1",
        "stages.1.prompts_per_step=4",
    ),
    *(
        "rollout.group_size=3",
        "rollout.max_tokens=5",
        "policy.build.hidden_size=32",
        "algorithm={name: gpg}",
    ),
    *(
        "update.betas=[0.5, 0.9]",
        "eval.limit=3",
        "save.every=2",
        "task.options.train=9",
        "policy.build.init_scale=2.0",
    ),
    *(
        "self_check=false",
        "prefetch_threads=0",
        "log.groups_per_step=0",
        "eval.every=0",
        "policy.dtype=bfloat16",
    ),
)
SIGNALS = ("KILL", "KILL", "TERM", "INT", "STOP", "HUP", "QUIT")


def draw(random: Random) -> Plan:
    chance = random.random()
    if chance < 0.1:
        signals = ("TERM", "INT", "KILL", "HUP")
        return {"launcher": random.choice(signals), "steps": random.randrange(7)}
    if chance < 0.4:
        return {"differs": random.choice(DIFFERENCES), "rank": random.randrange(SIZE)}
    return {
        "rank": random.randrange(SIZE),
        "kill": {
            "signal": random.choice(SIGNALS),
            "phase": random.choice(PHASES),
            "nth": random.randint(1, 6),
            "delay": random.choice((0.0, random.uniform(0, 0.05))),
        },
    }


def carry_out(plan: Plan, folder: Path) -> Result:
    ends = launch(folder, plan) if "launcher" in plan else run_ranks(folder, plan)
    findings = [finding for end in ends for finding in judge_end(end)]
    findings += _judge_left(folder, 30.0)  # ranks whose launcher was killed notice it by themselves
    shown = " / ".join(f"{end.code} {shown_line(end)}" for end in ends)
    if "differs" in plan:
        if any(end.code == 0 for end in ends):
            text = f"{plan['differs']} on rank {plan['rank']} alone is not noticed"
            findings.append(Finding(outcome="wrong", text=text))
        elif not any("differs between ranks" in shown_line(end) for end in ends):
            text = f"{plan['differs']} on rank {plan['rank']} alone is not named: {shown}"
            findings.append(Finding(outcome="unclear", text=text))
    elif any(end.code != 0 for end in ends):
        flags = ("--resume",) if (folder / "run/config.yaml").exists() else ()
        ends = run_ranks(folder, {}, *flags)
        findings += [finding for end in ends for finding in judge_end(end)]
        if any(end.code != 0 for end in ends):
            text = f"cannot be resumed: {shown_line(ends[0])}"
            findings.append(Finding(outcome="lost", text=text))
        else:
            findings += _compare(folder)
    findings += _judge_left(folder, 8.0)
    return Result(findings=tuple(findings), shown=shown)


def _judge_left(folder: Path, patience: float) -> list[Finding]:
    left = left_processes(folder.name, patience)
    return [Finding(outcome="unclear", text=f"leaves {len(left)} processes")] if left else []


def launch(folder: Path, plan: Plan) -> list[Ended]:
    """`vlrft launch`, which gets a signal after some steps; its ranks are new processes and end with it."""
    arguments = ["launch", "--ranks", str(SIZE), str(CONFIG), *LIMITS, "--out", "run"]
    child = start(arguments, folder, setting=Setting(env={MARK: folder.name}))
    metrics = folder / "run/metrics.jsonl"
    while child.running() and child.elapsed() < LIMIT:
        if metrics.exists() and metrics.read_text().count("\n") >= plan["steps"]:
            break
        time.sleep(0.05)
    child.send(getattr(signal, f"SIG{plan['launcher']}"))
    ended = child.wait()
    return [ended]


def run_ranks(folder: Path, plan: Plan, *flags: str) -> list[Ended]:
    """Runs the ranks as a launcher outside starts them; the plan's fault befalls one of them."""
    port = _free_port()
    children = []
    for rank in range(SIZE):
        env = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(SIZE),
            "LOCAL_WORLD_SIZE": str(SIZE),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            MARK: folder.name,
        }
        arguments = ["train", str(CONFIG), *LIMITS, "--out", "run", *flags]
        setting = Setting(env=env)
        number = 0
        if rank == plan.get("rank") and "differs" in plan:
            arguments.append(plan["differs"])
        elif rank == plan.get("rank"):
            number = getattr(signal, f"SIG{plan['kill']['signal']}")
            setting = Setting(env=env, prepare=trap(plan["kill"], number))
        child = start(arguments, folder, log=folder / f"log/{rank}_{len(flags)}", setting=setting)
        if number:
            child.sent.append(number)
        children.append(child)
    stopped = plan.get("kill", {}).get("signal") == "STOP"
    ends: list[Ended] = []
    for rank in sorted(range(SIZE), key=lambda r: r == plan.get("rank")):
        if stopped and rank == plan["rank"] and children[rank].running():
            children[rank].send(signal.SIGKILL)  # the others have ended
        ends.append(children[rank].wait())
    return ends


def _compare(folder: Path) -> list[Finding]:
    from benchmarks.campaign.in_child import call_in_child

    other = _undisturbed_run()
    gap, _ = call_in_child(lambda: weight_gap(folder / "run", other), folder)
    if gap is not None and gap <= TOLERANCE:
        return []
    text = f"the weights of the resumed run differ by {gap} of their norm"
    return [Finding(outcome="wrong", text=text)]


def weight_gap(run: Path, other: Path) -> float:
    """Relative difference of the final weights, over all tensors."""
    from safetensors.torch import load_file

    one, two = (load_file(r / "checkpoints/last/model.safetensors") for r in (run, other))
    squares: Any = sum((one[k] - two[k]).double().square().sum() for k in two)
    norm: Any = sum(t.double().square().sum() for t in two.values())
    return float((squares / norm) ** 0.5)


def _undisturbed_run() -> Path:
    """The finished run of two ranks that nothing befell, trained once for each process of the campaign."""
    import os

    folder = SCRATCH / f"undisturbed_ranks_{os.getpid()}"
    if not folder.exists():
        folder.mkdir(parents=True)
        ends = run_ranks(folder, {})
        if any(end.code != 0 for end in ends):
            raise RuntimeError(f"the undisturbed ranks fail: {ends}")
    return folder / "run"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


RANKS = Kind(
    name="ranks",
    doc="two ranks of which one is killed, stopped, or has other settings; resumed and compared",
    draw=draw,
    run=carry_out,
    share=1.5,
)
