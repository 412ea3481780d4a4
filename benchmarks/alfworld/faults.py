"""What becomes of ALFWorld plays when an environment's process is killed, hangs, or its game is damaged; and what is left.

    python -m benchmarks.alfworld.faults --data DIR        (games of vlrft data prepare alfworld)

Sixteen plays in two worker processes walk through their games by the planner's commands. Prints what each fault says of whom,
how many plays are won all the same, and processes, open files and memory before and after a hundred further plays.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from vlrft.config import EnvConfig, TaskConfig
from vlrft.envs import EnvFailure, EnvPool
from vlrft.rollout.gold import gold_turns
from vlrft.rollout.task import LoadedTask, load_task
from vlrft.schema import DataError, Sample

PLAYS, WORKERS, LIMIT = 16, 2, 5.0
Disturb = Callable[[int, EnvPool], None]
"""(turn, host): what happens before a turn."""


def loaded(data: Path) -> LoadedTask:
    env = EnvConfig(workers=WORKERS, time_limit=LIMIT)
    return load_task(TaskConfig(name="alfworld", options={"data": str(data)}, env=env), "train")


def golds_of(task: LoadedTask, count: int) -> list[list[str]]:
    """What gold says of the first samples."""
    return [list(gold_turns(task.task, sample)) for sample in task.samples[:count]]


def walk(
    task: LoadedTask, samples: Sequence[Sample], disturb: Disturb, said: Sequence[list[str]] = ()
) -> tuple[int, list[str]]:
    """Plays won, and what those say that were not; `said` in place of what gold says."""
    said = said or [list(gold_turns(task.task, sample)) for sample in samples]
    host = task.host
    assert isinstance(host, EnvPool)
    begun = host.start(samples)
    failed = [seen.message for _, seen in begun if isinstance(seen, EnvFailure)]
    left = {
        handle: list(own)
        for (handle, seen), own in zip(begun, said, strict=True)
        if not isinstance(seen, EnvFailure)
    }
    won, turn = 0, 0
    while left:
        turn += 1
        disturb(turn, host)
        answers = host.step({handle: own.pop(0) for handle, own in left.items()})
        for handle, step in answers.items():
            if isinstance(step, EnvFailure):
                failed.append(step.message)
                del left[handle]
            elif step.observation is None:
                won += step.scores["won"] == 1.0
                del left[handle]
    host.close([handle for handle, _ in begun])
    return won, failed


def nothing(turn: int, host: EnvPool) -> None:
    """As it should be."""


def killed(turn: int, host: EnvPool) -> None:
    """Before the third turn, between calls."""
    if turn == 3:
        os.kill(host.pids[0], signal.SIGKILL)


def killed_at_work(turn: int, host: EnvPool) -> None:
    """In the third turn, while it answers."""
    if turn == 3:
        pid = host.pids[0]
        threading.Timer(0.004, os.kill, (pid, signal.SIGKILL)).start()


def stopped(turn: int, host: EnvPool) -> None:
    """A process that answers no more in the third turn: it hangs."""
    if turn == 3:
        os.kill(host.pids[0], signal.SIGSTOP)


def damaged(data: Path, folder: Path) -> Path:
    """The first eight games, and a word of the problem of the first is another."""
    copy = folder / "games"
    for sample in loaded(data).samples[:8]:
        home = Path(sample.info["game"]).parent
        shutil.copytree(home, copy / home.relative_to(data))
    first = Path(loaded(copy).samples[0].info["game"])
    first.write_text(first.read_text().replace("(:init", "(:begin"))
    return copy


def unreadable(data: Path, folder: Path) -> str:
    """What is said when a game's file ends in the middle."""
    copy = damaged(data, folder / "cut")
    first = Path(loaded(copy).samples[0].info["game"])
    content = first.read_bytes()
    first.write_bytes(content[: len(content) // 2])
    try:
        loaded(copy)
    except DataError as e:
        return str(e).replace(str(folder), "…")
    return "nothing"


def held(host: EnvPool) -> dict[str, int]:
    """Processes, open files, and resident memory in MiB of this process and its workers."""
    pids = [os.getpid(), *host.pids]
    pages = sum(int(Path(f"/proc/{p}/statm").read_text().split()[1]) for p in pids)
    files = len(os.listdir("/proc/self/fd"))
    return {"processes": len(pids), "files": files, "MiB": pages * os.sysconf("SC_PAGE_SIZE") >> 20}


def told(
    name: str,
    task: LoadedTask,
    samples: Sequence[Sample],
    disturb: Disturb,
    said: Sequence[list[str]] = (),
) -> None:
    start = time.monotonic()
    won, failed = walk(task, samples, disturb, said)
    print(f"{name}: {won} of {len(samples)} won, {time.monotonic() - start:.1f} s", flush=True)
    for message in failed:
        print(f"  {message}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    args = parser.parse_args()
    task = loaded(args.data)
    samples = [task.samples[k % 8] for k in range(PLAYS)]
    told("undisturbed", task, samples, nothing)
    told("a worker killed between turns", task, samples, killed)
    told("a worker killed in a turn", task, samples, killed_at_work)
    told(f"a worker that hangs (time_limit {LIMIT:g} s)", task, samples, stopped)
    with tempfile.TemporaryDirectory() as folder:
        other = loaded(damaged(args.data, Path(folder)))
        told("a damaged game", other, list(other.samples[:4]), nothing, golds_of(task, 4))
        other.close()
        print(
            f"a game's file that ends in the middle, before anything is played:\n  {unreadable(args.data, Path(folder))}"
        )
    host = task.host
    assert isinstance(host, EnvPool)
    before = held(host)
    for k in range(100 // PLAYS + 1):
        walk(task, [replace(s, id=f"{s.id}/{k}") for s in samples], nothing)
    print(
        json.dumps({"before": before, f"after {PLAYS * (100 // PLAYS + 1)} more plays": held(host)})
    )
    task.close()


if __name__ == "__main__":
    main()
