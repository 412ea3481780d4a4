"""ALFWorld episodes whose environment process is killed or hangs, or whose game is damaged; and leaks of processes, files and memory.

    python -m benchmarks.alfworld.faults --data DIR        (games of vlrft data prepare alfworld)

Sixteen episodes in two worker processes follow the planner's commands. Prints each fault's messages, how many episodes are
won nevertheless, and processes, open files and memory before and after a hundred further episodes.
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

EPISODES, WORKERS, LIMIT = 16, 2, 5.0
Disturb = Callable[[int, EnvPool], None]
"""Called with (turn, host) before every turn."""


def load(data: Path) -> LoadedTask:
    env = EnvConfig(workers=WORKERS, time_limit=LIMIT)
    return load_task(TaskConfig(name="alfworld", options={"data": str(data)}, env=env), "train")


def gold_commands(task: LoadedTask, count: int) -> list[list[str]]:
    """The gold turns of the first samples."""
    return [list(gold_turns(task.task, sample)) for sample in task.samples[:count]]


def walk(
    task: LoadedTask, samples: Sequence[Sample], disturb: Disturb, turns: Sequence[list[str]] = ()
) -> tuple[int, list[str]]:
    """Run an episode of each sample; the number won, and the failures' messages. `turns`: in place of the gold turns."""
    turns = turns or [list(gold_turns(task.task, sample)) for sample in samples]
    host = task.host
    assert isinstance(host, EnvPool)
    starts = host.start(samples)
    messages = [result.message for _, result in starts if isinstance(result, EnvFailure)]
    remaining = {
        handle: list(commands)
        for (handle, result), commands in zip(starts, turns, strict=True)
        if not isinstance(result, EnvFailure)
    }
    won, turn = 0, 0
    while remaining:
        turn += 1
        disturb(turn, host)
        answers = host.step({handle: commands.pop(0) for handle, commands in remaining.items()})
        for handle, step in answers.items():
            if isinstance(step, EnvFailure):
                messages.append(step.message)
                del remaining[handle]
            elif step.observation is None:
                won += step.scores["won"] == 1.0
                del remaining[handle]
    host.close([handle for handle, _ in starts])
    return won, messages


def disturb_nothing(turn: int, host: EnvPool) -> None:
    """No fault."""


def kill_between_turns(turn: int, host: EnvPool) -> None:
    """Kill a worker before the third turn, between two calls."""
    if turn == 3:
        os.kill(host.pids[0], signal.SIGKILL)


def kill_in_turn(turn: int, host: EnvPool) -> None:
    """Kill a worker in the third turn, while it answers."""
    if turn == 3:
        pid = host.pids[0]
        threading.Timer(0.004, os.kill, (pid, signal.SIGKILL)).start()


def stop_worker(turn: int, host: EnvPool) -> None:
    """Stop a worker before the third turn, so that it hangs."""
    if turn == 3:
        os.kill(host.pids[0], signal.SIGSTOP)


def copy_damaged(data: Path, folder: Path) -> Path:
    """Copy the first eight games; one word in the problem of the first is changed."""
    copy = folder / "games"
    for sample in load(data).samples[:8]:
        home = Path(sample.info["game"]).parent
        shutil.copytree(home, copy / home.relative_to(data))
    first = Path(load(copy).samples[0].info["game"])
    first.write_text(first.read_text().replace("(:init", "(:begin"))
    return copy


def message_of_truncated(data: Path, folder: Path) -> str:
    """The error message for a game's file that ends in the middle."""
    copy = copy_damaged(data, folder / "cut")
    first = Path(load(copy).samples[0].info["game"])
    content = first.read_bytes()
    first.write_bytes(content[: len(content) // 2])
    try:
        load(copy)
    except DataError as e:
        return str(e).replace(str(folder), "…")
    return "no error"


def count_resources(host: EnvPool) -> dict[str, int]:
    """Processes, open files, and resident memory in MiB of this process and its workers."""
    pids = [os.getpid(), *host.pids]
    pages = sum(int(Path(f"/proc/{p}/statm").read_text().split()[1]) for p in pids)
    files = len(os.listdir("/proc/self/fd"))
    return {"processes": len(pids), "files": files, "MiB": pages * os.sysconf("SC_PAGE_SIZE") >> 20}


def run_fault(
    name: str,
    task: LoadedTask,
    samples: Sequence[Sample],
    disturb: Disturb,
    turns: Sequence[list[str]] = (),
) -> None:
    """Run the samples' episodes with a fault; print how many are won and the failures' messages."""
    start = time.monotonic()
    won, messages = walk(task, samples, disturb, turns)
    print(f"{name}: {won} of {len(samples)} won, {time.monotonic() - start:.1f} s", flush=True)
    for message in messages:
        print(f"  {message}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    args = parser.parse_args()
    task = load(args.data)
    samples = [task.samples[k % 8] for k in range(EPISODES)]
    run_fault("no fault", task, samples, disturb_nothing)
    run_fault("a worker killed between turns", task, samples, kill_between_turns)
    run_fault("a worker killed in a turn", task, samples, kill_in_turn)
    run_fault(f"a worker that hangs (time_limit {LIMIT:g} s)", task, samples, stop_worker)
    with tempfile.TemporaryDirectory() as folder:
        other = load(copy_damaged(args.data, Path(folder)))
        run_fault(
            "a damaged game",
            other,
            list(other.samples[:4]),
            disturb_nothing,
            gold_commands(task, 4),
        )
        other.close()
        print(
            f"a game's file that ends in the middle, when the task is loaded:\n  {message_of_truncated(args.data, Path(folder))}"
        )
    host = task.host
    assert isinstance(host, EnvPool)
    before = count_resources(host)
    for k in range(100 // EPISODES + 1):
        walk(task, [replace(s, id=f"{s.id}/{k}") for s in samples], disturb_nothing)
    print(
        json.dumps(
            {
                "before": before,
                f"after {EPISODES * (100 // EPISODES + 1)} more episodes": count_resources(host),
            }
        )
    )
    task.close()


if __name__ == "__main__":
    main()
