"""A folder of games -> samples; the engine is not loaded. For ALFRED's games and generated ones.

Games are selected by alfworld's rule: of one of the six families, nothing movable or sliced, marked as solvable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from vlrft.schema import DataError, Sample
from vlrft.schema.errors import MissingSplit

from .families import FAMILIES
from .native import require_package
from .options import Options

DOWNLOADED = "json_2.1.1"
SHOWN = 8  # entries of a folder in a message
GAME_FILE = "game.tw-pddl"
SOLVABLE = b'"solvable": true'
HINT = "vlrft data prepare alfworld --count train=200,valid_seen=60,valid_unseen=60 --out DIR"
EPISODE_OPTIONS = (
    "prompt",
    "context",
    "history",
    "max_steps",
    "invalid",
    "expert",
    "thoughts",
)  # passed to the environment


def load(split: str, options: Options) -> Sequence[Sample]:
    """The games of a split, in the order of their trials. Raises PluginError where the engine is not installed, which a run would
    find out episode by episode, and DataError if there are none."""
    require_package()
    if options.data is None:
        raise DataError(f"task alfworld: options.data is not set; generate games with `{HINT}`")
    folder = _split_folder(Path(options.data).expanduser(), split)
    info = {name: value for name, value in asdict(options).items() if name in EPISODE_OPTIONS}
    games = list(find_games(folder))
    samples = [
        _make_sample(split, k, family, path, info | {"copy": copy})
        for copy in range((options.renamed if split == "train" else 0) + 1)
        for k, (family, path) in enumerate(games)
        if family in options.families
    ]
    if not samples:
        raise DataError(
            f"{folder}: no solvable game of {', '.join(options.families)}{_without_games(folder)}"
        )
    return samples


def _split_folder(data: Path, split: str) -> Path:
    """The folder of a split: in `data`, or in the folder that alfworld-download makes in $ALFWORLD_DATA. Raises
    MissingSplit."""
    for folder in (data / split, data / DOWNLOADED / split):
        if folder.is_dir():
            return folder
    if not data.is_dir():
        raise DataError(f"{data}: no such folder; generate games with `{HINT}`")
    entries = sorted(p.name + "/" * p.is_dir() for p in data.iterdir())
    found = ", ".join(entries[:SHOWN]) + (", …" if len(entries) > SHOWN else "")
    raise MissingSplit(
        f"{data}: no {split} split; looked for (1) {split}/TASK/TRIAL/{GAME_FILE}; (2) "
        f"{DOWNLOADED}/{split}/TASK/TRIAL/{GAME_FILE} ($ALFWORLD_DATA); found {found or 'nothing'}; "
        f"alfworld-download fetches ALFRED's games, or generate some with `{HINT}`"
    )


def _without_games(folder: Path) -> str:
    """A hint where there are ALFRED's trajectories but no games of them."""
    if any(folder.glob(f"*/*/{GAME_FILE}")) or not any(folder.glob("*/*/traj_data.json")):
        return ""
    return f"; it has ALFRED's trajectories without {GAME_FILE}, which alfworld-download fetches"


def find_games(folder: Path) -> Iterator[tuple[str, Path]]:
    """The family and the file of each game. Raises DataError for a truncated file."""
    paths = sorted(
        folder.glob(f"*/*/{GAME_FILE}"), key=lambda p: (p.parent.name, p.parent.parent.name)
    )
    for path in paths:
        name = path.parent.parent.name
        family = name.partition("-")[0]
        if family not in FAMILIES or "movable" in name or "Sliced" in name:
            continue
        data = path.read_bytes()
        if not data.rstrip().endswith(b"}"):
            raise DataError(f"{path}: damaged, its end is missing; generate or copy it again")
        if SOLVABLE in data:
            yield family, path


def _make_sample(split: str, k: int, family: str, path: Path, info: Mapping[str, object]) -> Sample:
    copy = f"-renamed{info['copy']}" if info["copy"] else ""
    return Sample(
        id=f"alfworld/{split}/{k:04d}-{path.parent.parent.name}{copy}",
        messages=(),  # the environment shows the game
        tags={"kind": family},
        info={"game": str(path), **info},
    )
