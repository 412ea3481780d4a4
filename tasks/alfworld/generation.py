"""`vlrft data prepare alfworld`: generates games, each solved on the real engine before it is written.

Game k of a split is a function of (seed, split, k) alone. They are not the games of ALFRED: the rooms are drawn here, so
metrics cannot be compared with those of papers. ALFRED's games fit into the same folders.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlrft.data import read_manifest
from vlrft.schema import DataError

from .engine import Game, read_game
from .families import FAMILIES, SCENES
from .native import require_engine, versions
from .problems import goal_sentence, pddl_problem, trajectory_record
from .scenes import Layout, NoTargetError, draw_layout, draw_scene, keep_relevant
from .stored import FILE, pack
from .translation import translate

RECIPE = 1  # increased when the same seed gives other games
GOAL = "UNKNOWN GOAL"  # the placeholder of the goal sentence in alfworld's grammar
MAX_DRAWS = 20  # before a game is given up
MANIFEST = "manifest.json"


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A game that is not written yet."""

    layout: Layout
    game: dict[str, Any]
    record: dict[str, Any]


def generate(
    split: str, count: int, seed: int, folder: Path, families: Sequence[str] = FAMILIES
) -> Iterator[str]:
    """Generates the first `count` games of a split that are of these families, and yields a line for each; existing games are
    kept.

    Raises DataError if the folder has games of another seed or origin, or if a game cannot be generated.
    """
    require_engine()
    manifest = _open_manifest(folder, seed)
    started, generated = time.monotonic(), 0
    numbers = (k for k in itertools.count() if FAMILIES[k % len(FAMILIES)] in families)
    for k in itertools.islice(numbers, count):
        trial = f"trial_{seed}_{k:05d}"
        if found := list((folder / split).glob(f"*/{trial}/game.tw-pddl")):
            if not (file := found[0].with_name(FILE)).exists():  # by an earlier version
                _store_translation(file, read_game(found[0]))
            continue
        generated += 1
        yield from _generate_one(split, k, seed, folder, trial)
    entry = manifest["splits"].setdefault(split, {"games": 0, "seconds": 0.0})
    entry["games"] = max(entry["games"], count)
    entry["seconds"] = round(entry["seconds"] + time.monotonic() - started, 1)
    _replace(folder / MANIFEST, json.dumps(manifest, indent=1))
    existing = f", {count - generated} exist already" if generated < count else ""
    yield f"{split}: {generated} games generated{existing}"


def draw_game(split: str, k: int, seed: int, draw: int, trial: str) -> Draft:
    """One draw of a game, not yet solved. Raises NoTargetError."""
    from alfworld.gen import constants
    from alfworld.info import ALFRED_PDDL_PATH, ALFRED_TWL2_PATH

    family = FAMILIES[k % len(FAMILIES)]
    rng = random.Random(f"alfworld game {seed} {split} {k} {draw}")
    room = rng.choice(sorted(constants.GOALS_VALID[family]))
    layout = draw_layout(family, draw_scene(seed, room, rng.choice(SCENES[split])), rng)
    grammar = Path(ALFRED_TWL2_PATH).read_text(encoding="utf-8")
    game = {
        "pddl_domain": Path(ALFRED_PDDL_PATH).read_text(encoding="utf-8"),
        "grammar": grammar.replace(GOAL, goal_sentence(layout, rng)),
        "pddl_problem": pddl_problem(layout, f"{trial}_{split}"),
    }
    return Draft(layout=layout, game=game, record=trajectory_record(layout, trial))


def solve(draft: Draft, name: str) -> tuple[str, ...]:
    """Commands that win the game; empty if the planner's do not.

    The plan is made in a room with only the objects that the goal is about, which is fast, and then played in the complete
    room.
    """
    small_problem = pddl_problem(keep_relevant(draft.layout), "relevant")
    small = Game(name, draft.game | {"pddl_problem": small_problem})
    game = Game(name, draft.game)
    try:
        small.start()
        output = game.start()
        plan = () if output.won else tuple(map(game.command, small.plan_operators()))
        for command in plan:
            output = game.act(command)
        return plan if output.won else ()
    finally:
        small.close()
        game.close()


def _generate_one(split: str, k: int, seed: int, folder: Path, trial: str) -> Iterator[str]:
    """Draws games until the planner wins one, and writes it."""
    for draw in range(MAX_DRAWS):
        try:
            draft = draw_game(split, k, seed, draw, trial)
        except NoTargetError as e:
            yield f"{split} {k}: {e}; drawn again"
            continue
        home = folder / split / _folder_name(draft.layout) / trial
        plan = solve(draft, str(home))
        if plan:
            _write(home, draft, plan)
            yield f"{split} {k}: {home.parent.name}, won in {len(plan)}"
            return
        yield f"{split} {k}: {home.parent.name} cannot be won; drawn again"
    raise DataError(f"{split} {k}: none of {MAX_DRAWS} draws can be won; use another --seed")


def _write(home: Path, draft: Draft, plan: tuple[str, ...]) -> None:
    """Writes the game file last: a folder that has one is complete."""
    home.mkdir(parents=True, exist_ok=True)
    solved = draft.game | {"solvable": True, "walkthrough": list(plan)}
    _replace(home / "traj_data.json", json.dumps(draft.record))
    _replace(home / "initial_state.pddl", draft.game["pddl_problem"])
    _store_translation(home / FILE, draft.game)
    _replace(home / "game.tw-pddl", json.dumps(solved))


def _store_translation(file: Path, game: Mapping[str, Any]) -> None:
    domain, problem = game["pddl_domain"], game["pddl_problem"]
    _replace(file, pack(translate(domain, problem), domain, problem))


def _folder_name(layout: Layout) -> str:
    """The name of the folder as in ALFRED; loaders read the family from it."""
    target = layout.target
    where = f"{layout.scene.room}{layout.scene.number}"
    return f"{layout.family}-{target.object}-None-{target.receptacle or target.lamp}-{where}"


def _open_manifest(folder: Path, seed: int) -> dict[str, Any]:
    path = folder / MANIFEST
    origin = {"recipe": RECIPE, "seed": seed, "versions": versions()}
    if path.exists():
        manifest = read_manifest(path.read_bytes(), str(path))
        for key, value in origin.items():
            if manifest.get(key) != value:
                raise DataError(
                    f"{folder}: contains games of {key} {manifest.get(key)}, not {value}; use another --out"
                )
        return manifest
    if any(folder.glob("*/*/*/game.tw-pddl")):
        raise DataError(f"{folder}: contains games that were not generated here; use another --out")
    folder.mkdir(parents=True, exist_ok=True)
    manifest = origin | {"splits": {}}
    _replace(path, json.dumps(manifest, indent=1))
    return manifest


def _replace(path: Path, content: str | bytes) -> None:
    """Replaces a file atomically."""
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(content.encode() if isinstance(content, str) else content)
    os.replace(part, path)
