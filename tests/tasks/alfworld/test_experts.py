"""Players without a model."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from vlrft.tasks.alfworld.experts import expert_commands, play

from vlrft.schema import DataError, Sample


@pytest.mark.parametrize("name", ["planner", "handcoded"])
def test_experts_win_every_family(files: list[Path], name: str) -> None:
    plays = [play(path, name) for path in files]
    assert [p.won for p in plays] == [True] * 6


def test_the_released_expert_does_not_notice_that_its_hands_are_empty(files: list[Path]) -> None:
    assert not play(files[5], "handcoded_released").won
    assert play(files[0], "handcoded_released") == play(files[0], "handcoded")


def test_the_planner_follows_the_walkthrough(files: list[Path]) -> None:
    stored = json.loads(files[2].read_text(encoding="utf-8"))["walkthrough"]
    assert list(play(files[2], "planner").commands) == stored


@pytest.mark.parametrize("stored", [None, ["look", "fly to the moon"], [1]])
def test_the_planner_makes_a_plan_without_a_usable_walkthrough(
    files: list[Path], tmp_path: Path, stored: object
) -> None:
    game = json.loads(files[0].read_text(encoding="utf-8")) | {"walkthrough": stored}
    (tmp_path / "game.tw-pddl").write_text(json.dumps(game), encoding="utf-8")
    assert play(tmp_path / "game.tw-pddl", "planner").won


@pytest.mark.parametrize("name", ["handcoded", "random"])
def test_players_neither_read_nor_change_the_global_generator(files: list[Path], name: str) -> None:
    games = []
    for seed in (1, 2):
        random.seed(seed)
        before = random.getstate()
        games.append(play(files[1], name, max_steps=15))
        assert random.getstate() == before
    assert games[0] == games[1]


def test_a_random_player_depends_on_its_seed(files: list[Path]) -> None:
    one, other = (play(files[1], "random", seed, 10).commands for seed in (0, 1))
    assert one != other
    assert "help" not in one


def test_the_error_for_an_expert_that_does_not_win_names_the_sample(sample: Sample) -> None:
    hurried = replace(sample, info={**sample.info, "max_steps": 2})
    with pytest.raises(DataError, match="alfworld/train/0000: the planner does not win within 2"):
        expert_commands(hurried, "planner")


def test_the_handcoded_expert_needs_the_record_next_to_the_game(
    files: list[Path], tmp_path: Path
) -> None:
    shutil.copy(files[0], tmp_path / "game.tw-pddl")
    with pytest.raises(DataError, match=r"traj_data\.json"):
        play(tmp_path / "game.tw-pddl", "handcoded")
