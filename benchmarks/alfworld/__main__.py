"""ALFWorld on its real engine: the generated games, who wins them without a model, and vlrft's environment compared with the stock one.

    python -m benchmarks.alfworld --data DIR [--only PART …] [--splits SPLIT …] [--out DIR]

Generates 320 games in DIR, except those that it has already, then measures. Times of the engine are processor seconds, on
which other work on the machine has little effect. Each part adds its results to benchmarks/results/alfworld.json, from
which alfworld.md is written.
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
from benchmarks.alfworld.stock_env import Output, open_stock, random_commands, trace_stock
from vlrft.envs import EnvFailure, build_host

RESULTS = Path(__file__).parents[1] / "results"
TRACED, STEPS = 21, 30  # games (three of each family and three more), and steps of each
TOGETHER, TURNS = 128, 50  # environments at once (8 for each of 16 games), and turns of each
OPEN = 16  # games open at once, to measure the memory of one


def traces(data: Path, splits: Sequence[str]) -> dict[str, Any]:
    """Hashes of both environments' output for the same commands, and the time of each start and step."""
    every = [path for split in splits for _, path in files_of(data, split)]
    sample = every[:: len(every) // TRACED][:TRACED]
    env = open_stock(data, [str(p) for p in sample])
    hashes, seconds, equal, count = [hashlib.sha256(), hashlib.sha256()], list[dict[str, float]](), 0, 0  # fmt: skip
    for _ in env.files:
        file, theirs, stock = trace_stock(env, STEPS)
        ours, cold = trace_ours(file, STEPS)
        again, warm = trace_ours(file, STEPS)
        for digest, trace in zip(hashes, (theirs, ours), strict=True):
            digest.update(repr(trace).encode())
        equal += theirs == ours == again
        count += len(ours) - 1
        seconds.append({"stock_start": stock["start"], "cold_start": cold["start"], "warm_start": warm["start"], "stock_step": stock["steps"] / (len(theirs) - 1), "step": cold["steps"] / (len(ours) - 1)})  # fmt: skip
    return {
        "games": len(seconds),
        "equal": equal,
        "steps": count,
        "sha256": {"stock": hashes[0].hexdigest(), "ours": hashes[1].hexdigest()},
        "median_ms": {k: 1e3 * median(s[k] for s in seconds) for k in seconds[0]},
    }


def trace_ours(file: str, steps: int) -> tuple[list[Output], dict[str, float]]:
    """The outputs of vlrft's engine for random commands, and processor seconds of its start and of its steps."""
    game = Game(file)
    start = time.process_time()
    view = game.start()
    start_seconds = time.process_time() - start
    trace: list[Output] = [(view.text, view.admissible, view.score, view.done)]
    start = time.process_time()
    for command in random_commands(file, trace, steps):
        view = game.act(command)
        trace.append((view.text, view.admissible, view.score, view.done))
    seconds = {"start": start_seconds, "steps": time.process_time() - start}
    game.close()
    return trace, seconds


def memory(data: Path, splits: Sequence[str]) -> dict[str, Any]:
    """MB that an open game adds, in a fresh process; every file is opened twice."""
    files = [str(path) for _, path in files_of(data, "valid_seen")[: OPEN // 2]]
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        return {
            "games": OPEN,
            "ours": pool.apply(measure_growth, (open_ours, files, str(data))),
            "stock": pool.apply(measure_growth, (open_first_stock, files, str(data))),
        }


def measure_growth(open_game: Callable[[str, str], object], files: Sequence[str], data: str) -> dict[str, float]:  # fmt: skip
    """MB of the process with one game, and of each further one."""
    games = [open_game(files[0], data)]
    first = resident_megabytes()
    games += [open_game(file, data) for file in (*files, *files)][1:]
    return {"first": first, "each": (resident_megabytes() - first) / (len(games) - 1)}


def open_ours(file: str, data: str) -> object:
    game = Game(file)
    game.start()
    return game


def open_first_stock(file: str, data: str) -> object:
    env = open_stock(Path(data) / "valid_seen", [file])
    env.start()
    return env


def resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def workers(data: Path, splits: Sequence[str]) -> dict[str, Any]:
    """Random players in many environments at once, in two processes and in this one."""
    return {f"{n} processes" if n else "this process": run_together(data, n) for n in (2, 0)}


def run_together(data: Path, processes: int) -> dict[str, float]:
    """Wall seconds of starting and stepping; in each turn every game that is not over makes one step."""
    options = Options(data=str(data), prompt="short", max_steps=TURNS)
    samples = [s for s in task.load("train", options)[: TOGETHER // 8] for _ in range(8)]
    rng = random.Random(0)
    host = build_host(task, workers=processes, time_limit=None, reference="alfworld")
    start = time.monotonic()
    observations = dict(host.start(samples))
    handles = list(observations)
    start_seconds = time.monotonic() - start
    start, count = time.monotonic(), 0
    while observations:
        turns = {}
        for handle, observation in observations.items():
            assert not isinstance(observation, EnvFailure), observation
            text = str(observation.messages[0].content[0])
            admissible = text.partition("Actions:\n")[2].split("\n")[:-1]
            turns[handle] = f"<think></think><action>{rng.choice(admissible)}</action>"
        answers = host.step(turns)
        count += len(turns)
        steps = {h: a for h, a in answers.items() if not isinstance(a, EnvFailure)}
        assert len(steps) == len(turns)
        observations = {h: a.observation for h, a in steps.items() if a.observation is not None}
    seconds = time.monotonic() - start
    host.close(handles)
    return {
        "environments": len(handles),
        "steps": count,
        "start_s": start_seconds,
        "steps_s": seconds,
    }


PARTS = {  # name -> measurement, section of the page
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
        results = measure(args.data.resolve(), args.splits)
        results |= {"load": os.getloadavg()[0], "date": time.strftime("%Y-%m-%d")}
        print(name, json.dumps(results), flush=True)
        save(args.out / "alfworld.json", name, results)
        report.write(args.out, {name: section for name, (_, section) in PARTS.items()})


def save(path: Path, name: str, results: Mapping[str, Any]) -> None:
    """Replace the saved results of a part; those of splits that were not measured this time stay."""
    head = {"versions": versions(), "python": platform.python_version(), "cores": os.cpu_count()}
    saved = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(
        json.dumps({**saved, **head, name: {**saved.get(name, {}), **results}}, indent=1) + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
