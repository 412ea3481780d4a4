"""The stock environment: TextWorld's PddlEnv as AlfredTWEnv wraps it."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vlrft.tasks.alfworld.native import require_engine

Output = tuple[str, tuple[str, ...], int, bool]


def open_stock(path: Path) -> Any:
    require_engine()
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.envs import PddlEnv

    infos = textworld.EnvInfos(won=True, admissible_commands=True)
    env = AlfredDemangler(PddlEnv(infos), shuffle=False)
    env.load(
        json.loads(path.read_text(encoding="utf-8"))
    )  # with a path it would leave the file open
    return env


def play_stock(path: Path, commands: Sequence[str]) -> list[Output]:
    """The first output, and the output of each command."""
    env = open_stock(path)
    state = env.reset()
    outputs: list[Output] = [(state.feedback, tuple(state["admissible_commands"]), 0, False)]
    for command in commands:
        state, score, done = env.step(command)
        outputs.append((state.feedback, tuple(state["admissible_commands"]), score, done))
    return outputs


def random_command(admissible: Sequence[str], rng: random.Random) -> str:
    """A random command, sometimes one that the engine does not know."""
    return "fly to the moon" if rng.random() < 0.15 else rng.choice(admissible)
