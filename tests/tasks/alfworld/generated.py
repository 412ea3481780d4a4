"""Games generated for the tests."""

from __future__ import annotations

from pathlib import Path

from vlrft.tasks.alfworld.generation import generate
from vlrft.tasks.alfworld.stored import FILE

COUNTS = {"train": 6, "valid_unseen": 2}


def generate_games(folder: Path, split: str, count: int, seed: int = 0) -> list[str]:
    """Returns the lines of progress."""
    return list(generate(split, count, seed, folder))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of the games below a folder. Translations are left out: the order of their lines depends on the process."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("manifest.json", FILE)
    }
