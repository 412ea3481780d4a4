"""The generated games: how many, how different, and who wins them without a model."""

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
    """Generate the missing games; counts of all games, and wall and processor seconds of this call."""
    assert task.generate is not None
    lines, wall, processor = list[str](), time.monotonic(), time.process_time()
    for split, count in ((s, GAMES[s]) for s in splits):
        lines += task.generate(split, count, SEED, data, task.options())
    made = sum(", won in " in line for line in lines)
    scenes = {s: {scene(path) for _, path in files_of(data, s)} for s in GAMES}
    places = {s: {r for _, path in files_of(data, s) for r in receptacles(path)} for s in GAMES}
    return {
        "made": made,
        "wall_s": time.monotonic() - wall,
        "processor_s": time.process_time() - processor,
        "drawn_again": sum("drawn again" in line for line in lines),
        "games": {s: len(files_of(data, s)) for s in GAMES},
        "scenes": {s: len(ids) for s, ids in scenes.items()},
        "unseen_scenes_in_train": len(scenes["valid_unseen"] & scenes["train"]),
        "unseen_receptacles_in_train": len(places["valid_unseen"] & places["train"]),
        "seen_scenes_in_train": len(scenes["valid_seen"] & scenes["train"]),
        "same_problem_twice": count_duplicates(data),
    }


def scene(path: Path) -> tuple[str, int]:
    fields = json.loads((path.parent / "traj_data.json").read_text(encoding="utf-8"))["scene"]
    return fields["room"], fields["scene_num"]


def receptacles(path: Path) -> list[str]:
    """The ids of a game's receptacles, which contain their places in the room."""
    text = (path.parent / "initial_state.pddl").read_text(encoding="utf-8")
    return [
        line.split()[1] for line in text.splitlines() if line.startswith("(receptacleAtLocation")
    ]


def count_duplicates(data: Path) -> int:
    """How many games have the same problem as another one, apart from its name."""
    problems = [
        (p.parent / "initial_state.pddl").read_text(encoding="utf-8").partition("\n")[2]
        for s in GAMES
        for _, p in files_of(data, s)
    ]
    return len(problems) - len(set(problems))


def stock(data: Path, splits: Sequence[str]) -> dict[str, Any]:
    """Play the planner's commands in the stock environment; count the games that end with score 1."""
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
    """Games that each player without a model wins within 50 steps: player -> family -> won, games, mean steps of those won."""
    games: dict[str, dict[str, list[tuple[bool, int]]]] = {name: {} for name in PLAYERS}
    for family, path in (item for split in splits for item in files_of(data, split)):
        for name in PLAYERS:
            result = play(path, name)
            games[name].setdefault(family, []).append((result.won, len(result.commands)))
        print(path.parent, {name: games[name][family][-1] for name in PLAYERS}, flush=True)
    return {
        name: {family: tally(by_family[family]) for family in FAMILIES}
        for name, by_family in games.items()
    }


def tally(games: Sequence[tuple[bool, int]]) -> dict[str, float]:
    """Counts of (won, steps) pairs."""
    steps = [n for won, n in games if won]
    return {"won": len(steps), "games": len(games), "steps": fmean(steps) if steps else 0.0}
