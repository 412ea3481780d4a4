"""Plays of an environment for replay: what was shown, thought and done, what it earned, turn by turn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlrft.reporting.html.cards import data_uri

Row = dict[str, Any]
THOUGHT = re.compile(r"<think>(.*?)</think>", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One turn, ready to be shown."""

    pictures: tuple[str, ...]  # data URIs
    shown: str
    thought: str
    said: str
    reward: str
    advantage: str  # "" in an evaluation
    valid: bool


@dataclass(frozen=True, kw_only=True)
class Episode:
    """One play."""

    title: str
    figures: tuple[tuple[str, str], ...]
    error: str
    exchanges: tuple[Exchange, ...]
    good: bool

    @property
    def taught(self) -> bool:
        """Whether its turns have advantages."""
        return any(e.advantage for e in self.exchanges)


def split(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Rows of a single turn, and plays."""
    return [r for r in rows if not r.get("turns")], [r for r in rows if r.get("turns")]


def episode(run: Path, row: Row) -> Episode:
    """A line of rollouts.jsonl or of evals.jsonl that has turns."""
    scores = {k: v for k, v in row["scores"].items() if v is not None}
    figures = [(name, f"{value:.2f}") for name, value in scores.items()]
    figures += [(k, f"{row[k]:+.2f}") for k in ("reward", "advantage") if row.get(k) is not None]
    won = row.get("grades", {}).get("strict", row.get("reward"))
    ended = row.get("ended", "done")
    return Episode(
        title=f"{row['id']} · step {row['step']}" + ("" if ended == "done" else f" · {ended}"),
        figures=tuple(figures),
        error=row.get("errors", {}).get("environment", ""),
        exchanges=tuple(_exchange(run, turn) for turn in row["turns"]),
        good=won is not None and won > 0,
    )


def _exchange(run: Path, turn: Row) -> Exchange:
    thoughts = THOUGHT.findall(turn["said"])
    return Exchange(
        pictures=tuple(uri for name in turn["images"] if (uri := data_uri(run / name))),
        shown=turn["shown"].replace("<image>", "").strip(),
        thought=" ".join(t.strip() for t in thoughts).strip(),
        said=THOUGHT.sub("", turn["said"]).strip(),
        reward=f"{turn['reward']:g}" if turn["reward"] else "",
        advantage="" if turn.get("advantage") is None else f"{turn['advantage']:+.2f}",
        valid=turn["valid"],
    )
