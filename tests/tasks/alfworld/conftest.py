"""A few games, generated once a session on the real engine; without it these tests are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest
from vlrft.tasks.alfworld.folder import find_games

from tests.tasks.alfworld.generated import COUNTS, generate_games
from vlrft.schema import Sample


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a game of each family in train, and two of valid_unseen."""
    pytest.importorskip("textworld", reason="needs vlrft[alfworld]")
    folder = tmp_path_factory.mktemp("alfworld")
    for split, count in COUNTS.items():
        generate_games(folder, split, count)
    return folder


@pytest.fixture(scope="session")
def files(data: Path) -> list[Path]:
    """The train games, one of each family."""
    return [path for _, path in find_games(data / "train")]


@pytest.fixture
def sample(files: list[Path]) -> Sample:
    """The first game, with the options of an episode."""
    info = {
        "prompt": "released",
        "context": "rebuilt",
        "history": 2,
        "max_steps": 50,
        "invalid": "unreadable",
        "thoughts": False,
        "copy": 0,
    }
    return Sample(
        id="alfworld/train/0000",
        messages=(),
        tags={"kind": "pick_and_place_simple"},
        info={"game": str(files[0]), "expert": "planner", **info},
    )
