"""Renamed copies of games: other names, the same game."""

from __future__ import annotations

from pathlib import Path

import pytest
from vlrft.tasks.alfworld import gold, make_env
from vlrft.tasks.alfworld.families import OBJECTS, ROOMS
from vlrft.tasks.alfworld.folder import load
from vlrft.tasks.alfworld.options import Options
from vlrft.tasks.alfworld.renaming import UNCHANGED, Renaming, renaming_of

from vlrft.schema import Sample

TEXT = "You arrive at cabinet 1. On the cabinet 1, you see a cd 2, and a toiletpaper 1."


def test_names_are_exchanged_among_objects_and_among_receptacles() -> None:
    names = Renaming.draw("a").names
    for rooms in (OBJECTS, ROOMS):
        kinds = {kind.lower() for kinds in rooms.values() for kind in kinds}
        assert {names[kind] for kind in kinds} == kinds
    assert sum(old == new for old, new in names.items()) < 10
    assert Renaming.draw("a").names == names
    assert Renaming.draw("b").names != names


def test_only_whole_names_are_replaced_and_the_inverse_restores_them() -> None:
    few = Renaming({"cd": "cabinet", "cabinet": "cd", "toilet": "cart", "cart": "toilet"})
    assert few.text(TEXT) == "You arrive at cd 1. On the cd 1, you see a cabinet 2, and a toiletpaper 1."  # fmt: skip
    drawn = Renaming.draw("a")
    assert drawn.text(TEXT) != TEXT
    assert drawn.inverse.text(drawn.text(TEXT)) == TEXT
    assert UNCHANGED.text(TEXT) == TEXT
    assert renaming_of("a", 0) is UNCHANGED


def test_train_alone_has_copies(data: Path) -> None:
    options = Options(data=str(data), renamed=2)
    train, plain = load("train", options), load("train", Options(data=str(data)))
    assert [s.id for s in train[: len(plain)]] == [s.id for s in plain]
    assert len({s.id for s in train}) == len(train) == 3 * len(plain)
    held_out = load("valid_unseen", options)
    assert [s.info["copy"] for s in held_out] == [0] * len(held_out)


@pytest.mark.parametrize("expert", ["planner", "handcoded", "sweep"])
def test_a_copy_is_won_by_the_renamed_commands(data: Path, expert: str) -> None:
    options = Options(data=str(data), renamed=1, expert=expert)  # type: ignore[arg-type]
    train = load("train", options)
    half = len(train) // 2
    for original, copy in zip(train[:half], train[half:], strict=True):
        assert gold(copy) != gold(original)
        assert scores_of(copy, gold(copy)) == scores_of(original, gold(original))
        assert scores_of(copy, gold(copy))["won"] == 1.0
        assert scores_of(copy, gold(original))["won"] == 0.0


def scores_of(sample: Sample, answers: tuple[str, ...]) -> dict[str, float | None]:
    env, scores = make_env(sample), dict[str, "float | None"]()
    env.start()
    for answer in answers:
        step = env.step(answer)
        scores |= step.scores
        if step.observation is None:
            break
    env.close()
    return scores
