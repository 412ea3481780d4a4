"""The stock ALFWorld environment, opened as its users open it; the benchmark compares vlrft's environment with it."""

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
    """Open the games in `files` (None: all of the folder) that AlfredTWEnv takes for solvable."""
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
        env = get_environment("AlfredTWEnv")(config, train_eval="train")
    if files is not None:
        env.game_files = [f for f in env.game_files if f in files]
    with contextlib.redirect_stdout(io.StringIO()):
        return Stock(env=env.init_env(batch_size=1), files=list(env.game_files))


Output = tuple[str, tuple[str, ...], int, bool]  # observation, admissible commands, score, done


def trace_stock(stock: Stock, steps: int) -> tuple[str, list[Output], dict[str, float]]:
    """The next game's file, its outputs for random commands, and processor seconds of its start and of its steps."""
    start = time.process_time()
    text, admissible, file = stock.start()
    start_seconds = time.process_time() - start
    trace: list[Output] = [(text, tuple(admissible), 0, False)]
    start = time.process_time()
    for command in random_commands(file, trace, steps):
        text, admissible, score, done = stock.act(command)
        trace.append((text, tuple(admissible), score, done))
    return file, trace, {"start": start_seconds, "steps": time.process_time() - start}


def random_commands(file: str, trace: list[Output], steps: int) -> Iterator[str]:
    """Random admissible commands of the last output, one in ten unknown to the engine; ends when the game is over."""
    rng = random.Random(Path(file).parent.name)
    for _ in range(steps):
        if trace[-1][3]:
            return
        yield "fly to the moon" if rng.random() < 0.1 else rng.choice(trace[-1][1])
