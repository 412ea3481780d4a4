"""ALFWorld on the real engine: the games that we make, who wins them, and our environment beside the stock one.

    python -m benchmarks.alfworld --data DIR [--only PART …] [--splits SPLIT …] [--out DIR]

Makes 320 games in DIR (those there already stay), then measures. Times of the engine are processor seconds, so that
what others do on the machine counts little. Each part adds its figures to benchmarks/results/alfworld.json, from which
alfworld.md is written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import platform
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from vlrft.tasks.alfworld import task
from vlrft.tasks.alfworld.engine import Game
from vlrft.tasks.alfworld.native import versions
from vlrft.tasks.alfworld.options import Options

from benchmarks.alfworld import games, report
from benchmarks.alfworld.games import GAMES, files_of
from benchmarks.alfworld.stock_env import Seen, commands, open_stock, trace_stock
from vlrft.envs import EnvFailure, build_host

RESULTS = Path(__file__).parents[1] / "results"
TRACED, STEPS = 21, 30  # games, and steps of each: three of each family and three more
TOGETHER, TURNS = 128, 50  # environments played at once: 16 games by 8
ALIVE = 16  # games kept open to see what one takes


def traces(data: Path, splits: Sequence[str]) -> dict[str, Any]:
    """What both environments show to the same commands, as hashes; and what each step and start takes."""
    every = [path for split in splits for _, path in files_of(data, split)]
    chosen = every[:: len(every) // TRACED][:TRACED]
    env = open_stock(data, [str(p) for p in chosen])
    hashes, seconds, equal, count = [hashlib.sha256(), hashlib.sha256()], list[dict[str, float]](), 0, 0  # fmt: skip
    for _ in env.files:
        file, theirs, took = trace_stock(env, STEPS)
        ours, cold = trace_ours(file, STEPS)
        again, warm = trace_ours(file, STEPS)
        for digest, seen in zip(hashes, (theirs, ours), strict=True):
            digest.update(repr(seen).encode())
        equal += theirs == ours == again
        count += len(ours) - 1
        seconds.append({"stock_start": took["start"], "cold_start": cold["start"], "warm_start": warm["start"], "stock_step": took["steps"] / (len(theirs) - 1), "step": cold["steps"] / (len(ours) - 1)})  # fmt: skip
    return {
        "games": len(seconds),
        "equal": equal,
        "steps": count,
        "sha256": {"stock": hashes[0].hexdigest(), "ours": hashes[1].hexdigest()},
        "median_ms": {k: 1e3 * median(s[k] for s in seconds) for k in seconds[0]},
    }


def trace_ours(file: str, steps: int) -> tuple[list[Seen], dict[str, float]]:
    game = Game(file)
    begun = time.process_time()
    shown = game.start()
    started = time.process_time() - begun
    seen: list[Seen] = [(shown.text, shown.admissible, shown.score, shown.done)]
    begun = time.process_time()
    for command in commands(file, seen, steps):
        shown = game.act(command)
        seen.append((shown.text, shown.admissible, shown.score, shown.done))
    took = {"start": started, "steps": time.process_time() - begun}
    game.close()
    return seen, took


def memory(data: Path, splits: Sequence[str]) -> dict[str, Any]:
    """MB that an open game adds, in a process of its own; every second one shares its file with another."""
    chosen = [str(path) for _, path in files_of(data, "valid_seen")[: ALIVE // 2]]
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        return {
            "games": ALIVE,
            "ours": pool.apply(grown, (opened_ours, chosen, str(data))),
            "stock": pool.apply(grown, (opened_stock, chosen, str(data))),
        }


def grown(opened: Callable[[str, str], object], chosen: Sequence[str], data: str) -> dict[str, float]:  # fmt: skip
    kept = [opened(chosen[0], data)]
    first = resident()
    kept += [opened(file, data) for file in (*chosen, *chosen)][1:]
    return {"first": first, "each": (resident() - first) / (len(kept) - 1)}


def opened_ours(file: str, data: str) -> object:
    game = Game(file)
    game.start()
    return game


def opened_stock(file: str, data: str) -> object:
    env = open_stock(Path(data) / "valid_seen", [file])
    env.start()
    return env


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def workers(data: Path, splits: Sequence[str]) -> dict[str, Any]:
    """Random players of many environments at once, in two processes and in this one."""
    return {f"{n} processes" if n else "this process": together(data, n) for n in (2, 0)}


def together(data: Path, processes: int) -> dict[str, float]:
    """Wall seconds; a turn is one step of every game that is not over."""
    options = Options(data=str(data), prompt="short", max_steps=TURNS)
    samples = [s for s in task.load("train", options)[: TOGETHER // 8] for _ in range(8)]
    rng = random.Random(0)
    host = build_host(task, workers=processes, time_limit=None, reference="alfworld")
    begun = time.monotonic()
    seen = dict(host.start(samples))
    handles = list(seen)
    started = time.monotonic() - begun
    begun, count = time.monotonic(), 0
    while seen:
        said = {}
        for handle, shown in seen.items():
            assert not isinstance(shown, EnvFailure), shown
            offered = str(shown.messages[0].content[0]).partition("Actions:\n")[2].split("\n")[:-1]
            said[handle] = f"<think></think><action>{rng.choice(offered)}</action>"
        answers = host.step(said)
        count += len(said)
        steps = {h: a for h, a in answers.items() if not isinstance(a, EnvFailure)}
        assert len(steps) == len(said)
        seen = {h: a.observation for h, a in steps.items() if a.observation is not None}
    took = time.monotonic() - begun
    host.close(handles)
    return {"environments": len(handles), "steps": count, "start_s": started, "steps_s": took}


PARTS = {  # what is measured, and how it is told
    "generation": (games.generation, report.generation),
    "stock": (games.stock, report.stock),
    "players": (games.players, report.players),
    "traces": (traces, report.traces),
    "memory": (memory, report.memory),
    "workers": (workers, report.workers),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--splits", nargs="+", choices=list(GAMES), default=list(GAMES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    for name in args.only:
        measure, _ = PARTS[name]
        found = measure(args.data.resolve(), args.splits)
        said = found | {"load": os.getloadavg()[0], "date": time.strftime("%Y-%m-%d")}
        print(name, json.dumps(said), flush=True)
        add(args.out / "alfworld.json", name, said)
        report.write(args.out, {name: told for name, (_, told) in PARTS.items()})


def add(path: Path, name: str, said: Mapping[str, Any]) -> None:
    """One part's figures in the place of its earlier ones, but for splits that it did not play again."""
    head = {"versions": versions(), "python": platform.python_version(), "cores": os.cpu_count()}
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(
        json.dumps({**kept, **head, name: {**kept.get(name, {}), **said}}, indent=1) + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
