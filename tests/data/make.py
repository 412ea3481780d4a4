"""Small data sets in the schemas of the originals, with real pictures: python tests/data/make.py OUT.

Writes a folder for each pack. Nothing of it is committed: tests make what they read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

MAKERS = Path(__file__).parent / "makers"


def makers() -> dict[str, Callable[[Path], None]]:
    """Pack -> what writes its data set into a folder."""
    names = sorted(p.stem for p in MAKERS.glob("*.py") if not p.stem.startswith("_"))
    return {name: import_module(f"tests.data.makers.{name}").make for name in names}


def main(out: Path) -> None:
    for name, make in makers().items():
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        make(folder)
        print(f"{name}: {sum(p.is_file() for p in folder.rglob('*'))} files in {folder}")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    if len(sys.argv) != 2:
        sys.exit("usage: python tests/data/make.py OUT")
    main(Path(sys.argv[1]))
