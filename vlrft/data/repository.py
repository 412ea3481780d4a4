"""Folders as the hub and `datasets` lay them out: which files hold a split, by the card's configs or by `save_to_disk`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from vlrft.data.arrow_tables import read_batches
from vlrft.data.cells import Cells, UnreadableRows
from vlrft.data.files import Files
from vlrft.data.hub import require_datasets
from vlrft.data.tables import read_limited
from vlrft.schema import DataError
from vlrft.schema.short_message import first_line

CARD = "README.md"
MAX_CARD = 4 << 20  # bytes; cards of large repositories list thousands of files
STATE = "state.json"
DEFAULT = "default"


def card_tables(files: Files, split: str, tables: Sequence[str]) -> list[str]:
    """The split's tables by the configs of the card's metadata; [] where the card names none.

    Of several configs with the split, the one that is the default is meant. Raises DataError, which lists the configs, if
    there is no default.
    """
    found: dict[str, list[str]] = {}
    for config in _configs(files):
        patterns = _patterns(config.get("data_files"), split)
        named = [name for name in tables if any(_fits(name, p) for p in patterns)]
        if named:
            found[str(config.get("config_name", DEFAULT))] = named
            if config.get("default") is True:
                return named
    if len(found) < 2 or DEFAULT in found:
        return found.get(DEFAULT) or next(iter(found.values()), [])
    raise DataError(_several(files, split, found))


def _several(files: Files, split: str, found: Mapping[str, Sequence[str]]) -> str:
    places = [str(PurePosixPath(names[0]).parent) for names in found.values()]
    return (
        f"{files.label}: the {split} split is there in several configs, {', '.join(found)}; give the place of one: "
        + " or ".join(f"{files.label}/{place}" for place in places)
    )


def refuse_twins(files: Files, split: str, tables: Sequence[str]) -> None:
    """Raises DataError for tables of a split that have one name in several folders: each folder is a config of its own."""
    folders: dict[str, list[str]] = {}
    for name in tables:
        path = PurePosixPath(name)
        if path.stem == split or path.stem.startswith(f"{split}-"):
            folders.setdefault(path.name, []).append(name)
    twins = next((names for names in folders.values() if len(names) > 1), [])
    if twins:
        raise DataError(_several(files, split, {str(PurePosixPath(n).parent): [n] for n in twins}))


def _configs(files: Files) -> list[Mapping[str, Any]]:
    """The configs of the card's metadata; none for a card without any that can be read."""
    if CARD not in files.names():
        return []
    try:
        with files.open(CARD) as file:
            text = read_limited(file, CARD, MAX_CARD).decode("utf-8", "replace")
        if not text.startswith("---"):
            return []
        head = yaml.safe_load(text[3:].partition("\n---")[0])
        configs = head.get("configs") if isinstance(head, Mapping) else None
    except (DataError, yaml.YAMLError, RecursionError, ValueError):
        return []
    return [c for c in configs if isinstance(c, Mapping)] if isinstance(configs, list) else []


def _patterns(data_files: Any, split: str) -> list[str]:
    """The patterns of a split's files: of a list of splits, or of files alone, which are the train split."""
    items = data_files if isinstance(data_files, list) else [data_files]
    if isinstance(data_files, Mapping):
        items = [{"split": s, "path": p} for s, p in data_files.items()]
    patterns: list[Any] = []
    for item in items:
        of_split = item.get("split") == split if isinstance(item, Mapping) else split == "train"
        paths = item.get("path") if isinstance(item, Mapping) else item
        patterns += (paths if isinstance(paths, list) else [paths]) if of_split else []
    return [pattern for pattern in patterns if isinstance(pattern, str)]


def _fits(name: str, pattern: str) -> bool:
    """As the hub matches: `*` stays within a folder, `**` does not."""
    if "**" in pattern:
        return fnmatch(name, pattern.replace("**/", "*"))
    parts, wanted = PurePosixPath(name).parts, PurePosixPath(pattern).parts
    return len(parts) == len(wanted) and all(map(fnmatch, parts, wanted))


def saved_tables(files: Files, split: str) -> list[str]:
    """The split's part of a folder written by `save_to_disk`, as the name of its `state.json`; [] where there is none.

    A part is the split of its folder's name; of a Dataset saved alone, the split that it says it is, or train.
    """
    states = [n for n in files.names() if PurePosixPath(n).name == STATE and shards(files, n)]
    named = [n for n in states if PurePosixPath(n).parent.name == split]
    if named or len(states) != 1 or PurePosixPath(states[0]).parent != PurePosixPath("."):
        return named
    return states if (_state(files, states[0]).get("_split") or "train") == split else []


def _state(files: Files, name: str) -> Mapping[str, Any]:
    try:
        with files.open(name) as file:
            state = json.loads(read_limited(file, name, MAX_CARD))
    except (DataError, ValueError, RecursionError):
        return {}
    return state if isinstance(state, Mapping) else {}


def shards(files: Files, state: str) -> list[str]:
    """The arrow files of a saved part, in its order."""
    folder = PurePosixPath(state).parent
    listed = _state(files, state).get("_data_files")
    items = listed if isinstance(listed, list) else []
    names = [i.get("filename") for i in items if isinstance(i, Mapping)]
    return [str(folder / name) for name in names if isinstance(name, str)]


def read_saved(folder: Path, name: str) -> Iterator[Cells | UnreadableRows]:
    """The rows of a part that `save_to_disk` wrote, opened by `datasets.load_from_disk`; pictures stay encoded, as they are
    stored. Raises DataError, which names the part, if it is damaged."""
    require_datasets(name)
    import datasets

    try:
        saved: Any = datasets.load_from_disk(str(folder))
        table = saved.data.table
    except Exception as e:  # FileNotFoundError, ArrowInvalid, KeyError of a damaged state.json, …
        raise DataError(f"{name}: not a dataset that save_to_disk wrote ({first_line(e)})") from e
    yield from read_batches(table, name)
