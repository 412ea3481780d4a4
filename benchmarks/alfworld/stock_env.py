"""The stock ALFWorld environment, as its own users open it: what benchmarks/alfworld/__main__.py holds ours against."""

from __future__ import annotations

import contextlib
import io
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlrft.tasks.alfworld.native import require_engine

LIMIT = 50  # steps, as in verl-agent


@dataclass
class Stock:
    """AlfredTWEnv over a folder of games, one at a time."""

    env: Any
    files: list[str]

    def start(self) -> tuple[str, list[str], str]:
        """The next game's first observation, its admissible commands, and its file."""
        observations, infos = self.env.reset()
        return observations[0], infos["admissible_commands"][0], infos["extra.gamefile"][0]

    def act(self, command: str) -> tuple[str, list[str], int, bool]:
        """Observation, admissible commands, score, and whether it is over."""
        observations, scores, dones, infos = self.env.step([command])
        return observations[0], infos["admissible_commands"][0], int(scores[0]), bool(dones[0])


def open_stock(folder: Path, files: list[str] | None = None) -> Stock:
    """Over those of the files that AlfredTWEnv takes for solvable games; all of the folder's unless given."""
    require_engine()
    from alfworld.agents.environment import get_environment

    config: Mapping[str, Any] = {
        "dataset": {
            "data_path": str(folder),
            "eval_id_data_path": str(folder),
            "eval_ood_data_path": str(folder),
            "num_train_games": -1,
            "num_eval_games": -1,
        },
        "env": {
            "task_types": [1, 2, 3, 4, 5, 6],
            "goal_desc_human_anns_prob": 0.0,
            "domain_randomization": False,
            "expert_type": "handcoded",
        },
        "general": {"training_method": "dqn"},
        "rl": {"training": {"max_nb_steps_per_episode": LIMIT}},
    }
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        found = get_environment("AlfredTWEnv")(config, train_eval="train")
    if files is not None:
        found.game_files = [f for f in found.game_files if f in files]
    with contextlib.redirect_stdout(io.StringIO()):
        return Stock(env=found.init_env(batch_size=1), files=list(found.game_files))


Seen = tuple[str, tuple[str, ...], int, bool]


def trace_stock(stock: Stock, steps: int) -> tuple[str, list[Seen], dict[str, float]]:
    """The next game's file, what random commands made it show, and processor seconds of its start and its steps."""
    begun = time.process_time()
    text, offered, file = stock.start()
    started = time.process_time() - begun
    seen: list[Seen] = [(text, tuple(offered), 0, False)]
    begun = time.process_time()
    for command in commands(file, seen, steps):
        text, offered, score, done = stock.act(command)
        seen.append((text, tuple(offered), score, done))
    return file, seen, {"start": started, "steps": time.process_time() - begun}


def commands(file: str, seen: list[Seen], steps: int) -> Iterator[str]:
    """Of what was last seen a random command, one in ten unknown to the engine; ends with the game."""
    rng = random.Random(Path(file).parent.name)
    for _ in range(steps):
        if seen[-1][3]:
            return
        yield "fly to the moon" if rng.random() < 0.1 else rng.choice(seen[-1][1])
