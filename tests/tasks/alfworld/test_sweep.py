"""The expert that searches the places of a room in their order, and gold answers that think of the thing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from vlrft.tasks.alfworld import gold, think
from vlrft.tasks.alfworld.engine import Game
from vlrft.tasks.alfworld.experts import play
from vlrft.tasks.alfworld.folder import load
from vlrft.tasks.alfworld.options import Options
from vlrft.tasks.alfworld.sweep import LISTED

from vlrft.schema import DataError


def test_it_wins_every_family_with_admissible_commands(files: list[Path]) -> None:
    for path in files:
        played = play(path, "sweep")
        assert played.won, path
        game = Game(path)
        output = game.start()
        for command in played.commands:
            assert command in output.admissible
            output = game.act(command)
        assert output.won
        game.close()


def test_places_are_searched_as_they_are_listed(files: list[Path]) -> None:
    game = Game(files[0])
    listed = LISTED.findall(game.start().text)
    game.close()
    commands = play(files[0], "sweep").commands
    before = commands[: next(i for i, c in enumerate(commands) if c.startswith("take "))]
    visited = [c.removeprefix("go to ") for c in before if c.startswith("go ")]
    assert len(listed) > 3
    assert visited == listed[: len(visited)]


def test_a_thought_has_a_number_where_the_command_names_the_thing() -> None:
    commands = ["go to desk 1", "take cd 3 from desk 1", "heat cd 3 with microwave 1", "go to cdrack 2"]  # fmt: skip
    assert think(commands) == ["cd", "cd 3", "cd 3", "cd"]
    assert think(["look"]) == [""]


def test_gold_answers_think_where_it_is_asked_for(data: Path) -> None:
    silent = load("train", Options(data=str(data), expert="sweep"))
    aloud = load("train", Options(data=str(data), expert="sweep", thoughts=True))
    for one, other in zip(silent, aloud, strict=True):
        assert all(turn.startswith("<think></think>") for turn in gold(one))
        assert all(re.match(r"<think>[a-z]+( \d+)?</think><action>", turn) for turn in gold(other))
        assert [re.sub("<think>.*</think>", "<think></think>", t) for t in gold(other)] == list(
            gold(one)
        )


def test_a_missing_record_is_named(files: list[Path], tmp_path: Path) -> None:
    copy = tmp_path / files[0].name
    copy.write_bytes(files[0].read_bytes())
    with pytest.raises(DataError, match=r"traj_data\.json: the sweep expert cannot read it"):
        play(copy, "sweep")
