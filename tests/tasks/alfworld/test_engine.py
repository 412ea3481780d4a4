"""The fast engine: its outputs equal those of the stock environment, and it leaves the process unchanged."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from vlrft.tasks.alfworld.engine import NOTHING, Game, GameOutput

from tests.tasks.alfworld.stock import play_stock, random_command
from vlrft.schema import DataError


def wander(path: Path, steps: int, seed: int = 0) -> tuple[list[str], list[GameOutput]]:
    """Random commands, and their outputs."""
    rng, game = random.Random(seed), Game(path)
    commands, outputs = list[str](), [game.start()]
    for _ in range(steps):
        commands.append(random_command(outputs[-1].admissible, rng))
        outputs.append(game.act(commands[-1]))
    game.close()
    return commands, outputs


def as_stock(output: GameOutput) -> tuple[str, tuple[str, ...], int, bool]:
    return output.text, output.admissible, output.score, output.done


@pytest.mark.parametrize("k", [1, 2, 5])
def test_every_step_equals_the_stock_environment(files: list[Path], k: int) -> None:
    commands, outputs = wander(files[k], 12)
    assert [as_stock(o) for o in outputs] == play_stock(files[k], commands)
    assert NOTHING in {o.text for o in outputs}


def test_a_planned_game_equals_the_stock_environment(files: list[Path]) -> None:
    """Taking, heating, opening, placing: what random_command seldom does."""
    plan = json.loads(files[3].read_text(encoding="utf-8"))["walkthrough"]
    commands = [c for command in plan for c in ("inventory", command, "look", "help")]
    game = Game(files[3])
    outputs = [game.start(), *(game.act(c) for c in commands)]
    game.close()
    assert [as_stock(o) for o in outputs] == play_stock(files[3], commands)
    assert outputs[-1].won


def test_simultaneous_games_do_not_affect_each_other(files: list[Path]) -> None:
    alone = [wander(path, 6) for path in files[:3]]
    open_ = [Game(path) for path in files[:3]]
    outputs = [[game.start()] for game in open_]
    for turn in range(6):
        for k, game in enumerate(open_):
            outputs[k].append(game.act(alone[k][0][turn]))
    for game in open_:
        game.close()
    assert outputs == [expected for _, expected in alone]


def test_a_game_does_not_affect_the_next_one(files: list[Path]) -> None:
    first = wander(files[2], 8)
    wander(files[4], 8, seed=1)
    assert wander(files[2], 8) == first


def test_a_plan_starts_from_the_current_state(files: list[Path]) -> None:
    game = Game(files[0])
    game.start()
    plan = game.plan()
    game.act(plan[0])
    assert game.plan() == plan[1:]
    game.close()


def test_closing_twice_releases_the_library_once(files: list[Path]) -> None:
    game = Game(files[0])
    game.start()
    game.close()
    game.close()
    one, other = Game(files[0]), Game(files[1])
    for opened in (one, other):
        opened.start()
    assert one._library is not other._library
    for opened in (one, other):
        opened.close()


def test_the_process_is_unchanged(files: list[Path]) -> None:
    random.seed(7)
    before, arguments, variables = random.getstate(), list(sys.argv), dict(os.environ)
    wander(files[0], 4)
    assert (random.getstate(), sys.argv, dict(os.environ)) == (before, arguments, variables)


def test_nothing_is_created_in_the_home_directory(files: list[Path], tmp_path: Path) -> None:
    code = "import sys; from vlrft.tasks.alfworld.engine import Game; print(Game(sys.argv[1]).start().won)"  # fmt: skip
    env = {k: v for k, v in os.environ.items() if k != "ALFWORLD_DATA"} | {"HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code, str(files[0])], check=True, env=env)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "damaged, not JSON"),
        ("[" * 100_000, "damaged, not JSON"),
        ('{"grammar": "', "damaged, not JSON"),
        ("[]", "not a game; expected texts for pddl_domain, grammar, pddl_problem"),
        ('{"pddl_domain": "", "grammar": "", "pddl_problem": ""}', "the engine cannot read it"),
    ],
)
@pytest.mark.usefixtures("data")
def test_the_error_names_a_damaged_file(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "game.tw-pddl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message) as caught:
        Game(path).start()
    assert str(path) in str(caught.value)


def test_the_error_names_a_file_with_a_truncated_problem(files: list[Path], tmp_path: Path) -> None:
    data = json.loads(files[0].read_text(encoding="utf-8"))
    data["pddl_problem"] = data["pddl_problem"][:2000]
    path = tmp_path / "game.tw-pddl"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(DataError, match=r"game\.tw-pddl: the engine cannot read it"):
        Game(path).start()


def test_the_error_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.tw-pddl: cannot be read"):
        Game(tmp_path / "none.tw-pddl")
