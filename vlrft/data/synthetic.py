"""Synthetic rows: made up by a pack, and written in the form in which its data set is published, to try it without a download.

The rows teach nothing about the published data: no score on them is a result. A prepared folder notes where its rows are from.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlrft.data.claim import lock_folder
from vlrft.data.prepared import MANIFEST, read_manifest
from vlrft.data.published_files import write_lines
from vlrft.schema.errors import ConfigError

FOLDER = "published"
MARK = "SYNTHETIC.txt"
NOTE = "synthetic rows ("  # the beginning of `describe_rows`


@dataclass(frozen=True, kw_only=True)
class Draw:
    """The place of a row among those that are made, and its source of chance."""

    index: int
    count: int  # rows of the split
    rng: random.Random
    options: Any  # the pack's options


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """A pack's generator of rows in the published form. The rows of a split have its templates equally often; no two splits
    share a template, and no two rows a seed.

    Raises ValueError for a template that several splits have.
    """

    templates: Mapping[str, Mapping[str, Callable[[Draw], Any]]]
    """Split -> name -> makes one row, in whatever form `write` takes: a wording of a question, or a way to draw a picture."""
    write: Callable[[Sequence[Any], str, Any, Path], None]
    """Rows, split, options, folder -> writes the files that the pack reads of the published data set."""
    thought: Callable[[Any, int, str, Any], tuple[str, str]] | None = None
    """Row, its index, split, options -> the id that the pack's `read` gives the row, and the reasoning before its gold answer."""

    def __post_init__(self) -> None:
        names = Counter(name for templates in self.templates.values() for name in templates)
        if shared := [name for name, splits in names.items() if splits > 1]:
            raise ValueError(f"templates of several splits: {', '.join(shared)}")

    def rows(self, split: str, count: int, seed: int, options: Any) -> list[Any]:
        """The first rows of a split. A row depends on the split, the seed and its index; on `count` only as `Draw` says."""
        templates = self.templates[split]
        names: list[str] = []
        while (
            len(names) < count
        ):  # shuffled each time, so that no class or kind always has the same one
            order = random.Random(f"{split} {seed} templates {len(names)}")
            names += order.sample(sorted(templates), len(templates))
        rows = []
        for index, name in enumerate(names[:count]):
            rng = random.Random(f"{split} {seed} {index} {name}")
            rows.append(templates[name](Draw(index=index, count=count, rng=rng, options=options)))
        return rows


def describe_rows(count: int, seed: int) -> str:
    """The note that prepared synthetic rows keep."""
    return (
        f"{NOTE}{count} made with seed {seed}): a score on them is no result on the published data"
    )


def refuse_other_rows(out: Path, split: str, wanted: str | None) -> None:
    """Raises ConfigError where a prepared split has other rows. `wanted`: the note of `describe_rows`; None: published rows."""
    entry = read_manifest((out / MANIFEST).read_bytes(), str(out / MANIFEST))["splits"][split]
    stored = next((n for n in entry.get("notes", ()) if str(n).startswith(NOTE)), None)
    if stored != wanted:
        kinds = [
            "published rows" if n is None else str(n).partition(":")[0] for n in (stored, wanted)
        ]
        raise ConfigError(
            [
                f"{out}: the {split} split has {kinds[0]}, not {kinds[1]}; prepare it again with --overwrite, or use "
                "another --out"
            ]
        )


def write_published(
    synthetic: Synthetic, split: str, count: int, seed: int, options: Any, out: Path
) -> Path:
    """Writes a split's synthetic rows into `out/published/SPLIT`, instead of those of an earlier call, and returns that
    folder; and their thoughts next to it, for a pack that has some. Raises ConfigError where the folder has other files."""
    folder = published_folder(out, split)
    with lock_folder(out):
        if folder.exists() and not (folder / MARK).exists():
            raise ConfigError(
                [f"{folder} exists, and has no {MARK}: it is not synthetic; use another --out"]
            )
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / MARK).write_text(f"{describe_rows(count, seed)}\n", encoding="utf-8")
        rows = synthetic.rows(split, count, seed, options)
        synthetic.write(rows, split, options, folder)
        if synthetic.thought is not None:
            named = (
                synthetic.thought(row, index, split, options) for index, row in enumerate(rows)
            )
            write_lines(
                thoughts_file(folder), [{"id": name, "thought": text} for name, text in named]
            )
    return folder


def published_folder(out: Path, split: str) -> Path:
    """The folder that a split's published form is written into."""
    return out / FOLDER / split


def thoughts_file(folder: Path) -> Path:
    """The table of the thoughts of a folder of published rows, next to it."""
    return folder.with_name(f"{folder.name}.thoughts.jsonl")
