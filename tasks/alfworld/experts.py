"""Players without a model: the planner, alfworld's handcoded agent and a sweep of the room as teachers, random commands as a baseline."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from vlrft.schema import DataError, Sample

from .engine import Game, GameOutput
from .sweep import read_goal

PLAYS = 4096  # that are kept: the commands of each
MAX_ACTS = 200  # of the handcoded agent before it gives up, as in AlfredExpert
LOOK = (
    "look"  # the first command of AlfredExpert, and its replacement for one that is not admissible
)

Player = Callable[[GameOutput], "str | None"]  # returns the next command, or None to give up


@dataclass(frozen=True, kw_only=True)
class PlayedGame:
    """The commands of one game from its start, and whether they won it."""

    commands: tuple[str, ...]
    won: bool


def play(path: str | Path, name: str, seed: int = 0, max_steps: int = 50) -> PlayedGame:
    """Lets one of PLAYERS play a game. `seed`: for players that choose at random."""
    game = Game(path)
    try:
        output, commands = game.start(), list[str]()
        player = PLAYERS[name](game, seed)
        while not output.done and len(commands) < max_steps:
            command = player(output)
            if command is None:
                break
            commands.append(command)
            output = game.act(command)
        return PlayedGame(commands=tuple(commands), won=output.won)
    finally:
        game.close()


def expert_commands(sample: Sample, name: str) -> tuple[str, ...]:
    """Commands that win a sample's game: those of the named player, or of the planner if that player does not win within
    the episode's limit. Raises DataError if neither wins."""
    limit = sample.info["max_steps"]
    played = _play_once(sample.info["game"], name, limit)
    if not played.won and name != "planner":
        played = _play_once(sample.info["game"], "planner", limit)
    if not played.won:
        raise DataError(
            f"sample {sample.id}: the {name} does not win within {limit} steps; remove its game, or raise "
            "options.max_steps"
        )
    return played.commands


@lru_cache(maxsize=PLAYS)
def _play_once(path: str, name: str, max_steps: int) -> PlayedGame:
    """Renamed copies of a game have one play."""
    return play(path, name, max_steps=max_steps)


def make_planner(game: Game, seed: int) -> Player:
    """Follows the walkthrough of the file as long as it is admissible, and plans from there."""
    stored = game.data.get("walkthrough") or ()
    remaining: list[str] = list(stored) if all(isinstance(c, str) for c in stored) else []

    def choose(output: GameOutput) -> str | None:
        if not remaining or remaining[0] not in output.admissible:
            remaining[:] = game.plan()
        return remaining.pop(0) if remaining else None

    return choose


def make_random_player(game: Game, seed: int) -> Player:
    """Chooses any admissible command but `help`, which prompts do not offer."""
    rng = random.Random(
        f"alfworld random {seed} {game.path.parent.parent.name} {game.path.parent.name}"
    )
    return lambda output: rng.choice([c for c in output.admissible if c != "help"])


def make_handcoded(game: Game, seed: int, *, fixed: bool = True) -> Player:
    """alfworld's HandCodedTWAgent, as AlfredExpert drives it.

    It takes its hands to be empty after a `put`, which the engine has called `move` since 0.4.0, and therefore loses most
    games of pick_two_obj_and_place. `fixed` translates that verb for it. The facts are sorted here, so that it plays the
    same in every process.
    """
    from alfworld.agents.expert import HandCodedAgentFailed, HandCodedAgentTimeout, HandCodedTWAgent

    agent = HandCodedTWAgent(max_steps=MAX_ACTS)
    with _needs_record(game, "handcoded"):
        agent.reset(str(game.path))
    if fixed:
        _read_move_as_put(agent.policy)
    generator = random.Random(f"alfworld handcoded {seed} {game.path.parent.name}")
    last = ""

    def choose(output: GameOutput) -> str | None:
        nonlocal last
        state = {
            "feedback": output.text,
            "admissible_commands": list(output.admissible),
            "facts": game.facts(),
        }
        command = LOOK
        if last:
            try:
                with _use_as_global_random(generator):
                    choice = agent.act(state, 0, output.won, last)
            except (HandCodedAgentFailed, HandCodedAgentTimeout):
                return None
            command = choice if choice in output.admissible else LOOK
        else:
            agent.observe(output.text)
        last = command
        return command

    return choose


def make_released_handcoded(game: Game, seed: int) -> Player:
    """The agent as alfworld 0.4.2 has it."""
    return make_handcoded(game, seed, fixed=False)


def make_sweeper(game: Game, seed: int) -> Player:
    """Goes through the places of the room as the first observation lists them: see `sweep`."""
    with _needs_record(game, "sweep"):
        return read_goal(game).choose


PLAYERS: Mapping[str, Callable[[Game, int], Player]] = {
    "planner": make_planner,
    "handcoded": make_handcoded,
    "handcoded_released": make_released_handcoded,
    "random": make_random_player,
    "sweep": make_sweeper,
}


@contextmanager
def _needs_record(game: Game, expert: str) -> Iterator[None]:
    """Names the record of a game where it cannot be read."""
    try:
        yield
    except (OSError, ValueError, KeyError) as e:
        record = game.path.with_name("traj_data.json")
        raise DataError(f"{record}: the {expert} expert cannot read it ({e})") from None


def _read_move_as_put(policy: Any) -> None:
    track = policy.update_state_tracking

    def update(state: Any, last: str) -> None:
        track(state, f"put {last.removeprefix('move ')}" if last.startswith("move ") else last)

    policy.update_state_tracking = update


@contextmanager
def _use_as_global_random(generator: random.Random) -> Iterator[None]:
    """Gives the `random` module the generator's state, from which the agent draws, and restores the program's afterwards."""
    before = random.getstate()
    random.setstate(generator.getstate())
    try:
        yield
    finally:
        generator.setstate(random.getstate())
        random.setstate(before)
