"""A folder of games -> samples, without the engine: ALFRED's own games and ours alike.

Which games count is alfworld's rule: one of the six families, nothing movable or sliced, known to be solvable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from vlrft.schema import DataError, Sample

from .families import FAMILIES
from .options import Options

GAME = "game.tw-pddl"
SOLVABLE = b'"solvable": true'
ADVICE = "vlrft data prepare alfworld --count train=200,valid_seen=60,valid_unseen=60 --out DIR"
SHOWN = ("prompt", "context", "history", "max_steps", "expert")  # options that a play needs


def load(split: str, options: Options) -> Sequence[Sample]:
    """The games of a split, in the order of their trials. Raises DataError where there are none."""
    if options.data is None:
        raise DataError(f"task alfworld: options.data is not set; make games with `{ADVICE}`")
    home = Path(options.data).expanduser() / split
    if not home.is_dir():
        raise DataError(f"{home}: no such folder; make games with `{ADVICE}`")
    chosen = {name: value for name, value in asdict(options).items() if name in SHOWN}
    found = [
        _sample(split, k, family, path, chosen)
        for k, (family, path) in enumerate(games(home))
        if family in options.families
    ]
    if not found:
        raise DataError(f"{home}: no solvable game of {', '.join(options.families)}")
    return found


def games(home: Path) -> Iterator[tuple[str, Path]]:
    """Families and files. Raises DataError for a file that was cut off."""
    paths = sorted(home.glob(f"*/*/{GAME}"), key=lambda p: (p.parent.name, p.parent.parent.name))
    for path in paths:
        name = path.parent.parent.name
        family = name.partition("-")[0]
        if family not in FAMILIES or "movable" in name or "Sliced" in name:
            continue
        data = path.read_bytes()
        if not data.rstrip().endswith(b"}"):
            raise DataError(f"{path}: damaged, it ends in the middle; make or copy it again")
        if SOLVABLE in data:
            yield family, path


def _sample(split: str, k: int, family: str, path: Path, chosen: dict[str, object]) -> Sample:
    return Sample(
        id=f"alfworld/{split}/{k:04d}-{path.parent.parent.name}",
        messages=(),  # the environment shows the game
        tags={"kind": family},
        info={"game": str(path), **chosen},
    )
