"""The games that we make: how many, how different, and who wins them without a model. A part of `alfworld_engine`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from vlrft.tasks.alfworld import task
from vlrft.tasks.alfworld.experts import PLAYERS, play
from vlrft.tasks.alfworld.families import FAMILIES
from vlrft.tasks.alfworld.folder import find_games

from benchmarks.alfworld.stock_env import open_stock

GAMES = {"train": 200, "valid_seen": 60, "valid_unseen": 60}
SEED = 0


def files_of(data: Path, split: str) -> list[tuple[str, Path]]:
    return list(find_games(data / split))


def generation(data: Path, splits: Sequence[str]) -> dict[str, Any]:
    """Makes what is missing; wall and processor seconds of what this call made."""
    assert task.generate is not None
    lines, wall, busy = list[str](), time.monotonic(), time.process_time()
    for split, count in ((s, GAMES[s]) for s in splits):
        lines += task.generate(split, count, SEED, data)
    made = sum(", won in " in line for line in lines)
    scenes = {s: {scene(path) for _, path in files_of(data, s)} for s in GAMES}
    places = {s: {r for _, path in files_of(data, s) for r in receptacles(path)} for s in GAMES}
    return {
        "made": made,
        "wall_s": time.monotonic() - wall,
        "processor_s": time.process_time() - busy,
        "drawn_again": sum("drawn again" in line for line in lines),
        "games": {s: len(files_of(data, s)) for s in GAMES},
        "scenes": {s: len(found) for s, found in scenes.items()},
        "unseen_scenes_in_train": len(scenes["valid_unseen"] & scenes["train"]),
        "unseen_receptacles_in_train": len(places["valid_unseen"] & places["train"]),
        "seen_scenes_in_train": len(scenes["valid_seen"] & scenes["train"]),
        "same_problem_twice": twice(data),
    }


def scene(path: Path) -> tuple[str, int]:
    found = json.loads((path.parent / "traj_data.json").read_text(encoding="utf-8"))["scene"]
    return found["room"], found["scene_num"]


def receptacles(path: Path) -> list[str]:
    """Their ids, which hold their places in the room."""
    text = (path.parent / "initial_state.pddl").read_text(encoding="utf-8")
    return [
        line.split()[1] for line in text.splitlines() if line.startswith("(receptacleAtLocation")
    ]


def twice(data: Path) -> int:
    """Problems that stand in more than one file, but for their names."""
    found = [
        (p.parent / "initial_state.pddl").read_text(encoding="utf-8").partition("\n")[2]
        for s in GAMES
        for _, p in files_of(data, s)
    ]
    return len(found) - len(set(found))


def stock(data: Path, splits: Sequence[str]) -> dict[str, Any]:
    """The planner's commands in the stock environment: games won with score 1 and done."""
    out: dict[str, Any] = {}
    for split in splits:
        env, won = open_stock(data / split), 0
        for _ in env.files:
            *_, file = env.start()
            score, done = 0, False
            for command in json.loads(Path(file).read_text(encoding="utf-8"))["walkthrough"]:
                _, _, score, done = env.act(command)
            won += bool(score == 1 and done)
            print(split, won, file, flush=True)
        out[split] = {"taken": len(env.files), "won": won}
    return out


def players(data: Path, splits: Sequence[str]) -> dict[str, Any]:
    """Games won by who plays without a model, within 50 steps: family -> won, games, mean steps of those won."""
    own: dict[str, dict[str, list[tuple[bool, int]]]] = {name: {} for name in PLAYERS}
    for family, path in (item for split in splits for item in files_of(data, split)):
        for name in PLAYERS:
            played = play(path, name)
            own[name].setdefault(family, []).append((played.won, len(played.commands)))
        print(path.parent, {name: own[name][family][-1] for name in PLAYERS}, flush=True)
    return {
        name: {family: tally(found[family]) for family in FAMILIES} for name, found in own.items()
    }


def tally(plays: Sequence[tuple[bool, int]]) -> dict[str, float]:
    steps = [n for won, n in plays if won]
    return {"won": len(steps), "games": len(plays), "steps": fmean(steps) if steps else 0.0}
