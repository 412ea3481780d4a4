"""Episodes as tables of the report: the observation, thought, action, reward and advantage of each turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vlrft.reporting.html.cards import data_uri, shorten
from vlrft.reporting.html.run_data import JsonRow

OPEN, CLOSE = "<think>", "</think>"


@dataclass(frozen=True, kw_only=True)
class TurnView:
    """One turn as texts of the page."""

    images: tuple[str, ...]  # data URIs
    observation: str
    thought: str
    action: str
    reward: str
    advantage: str  # "" in an evaluation
    valid: bool


@dataclass(frozen=True, kw_only=True)
class EpisodeView:
    """One episode as texts of the page."""

    title: str
    scores: tuple[tuple[str, str], ...]  # name and value, the reward and the advantage last
    error: str
    turns: tuple[TurnView, ...]
    good: bool

    @property
    def has_advantages(self) -> bool:
        """Whether the turns have advantages, as those of training do."""
        return any(turn.advantage for turn in self.turns)


def split_episodes(rows: Sequence[JsonRow]) -> tuple[list[JsonRow], list[JsonRow]]:
    """Rows of a single turn, and rows of episodes."""
    return [r for r in rows if not r.get("turns")], [r for r in rows if r.get("turns")]


def make_episode(run: Path, row: JsonRow) -> EpisodeView:
    """The view of a line of rollouts.jsonl or evals.jsonl that has turns."""
    scores = {k: v for k, v in row["scores"].items() if v is not None}
    labels = [(name, f"{value:.2f}") for name, value in scores.items()]
    labels += [(k, f"{row[k]:+.2f}") for k in ("reward", "advantage") if row.get(k) is not None]
    grade = row.get("grades", {}).get("strict", row.get("reward"))
    ended = row.get("ended", "done")
    return EpisodeView(
        title=f"{row['id']} · step {row['step']}" + ("" if ended == "done" else f" · {ended}"),
        scores=tuple(labels),
        error=row.get("errors", {}).get("environment", ""),
        turns=tuple(_turn_view(run, turn) for turn in row["turns"]),
        good=grade is not None and grade > 0,
    )


def split_thoughts(said: str) -> tuple[list[str], str]:
    """The texts between each `<think>` and the next `</think>`, and the rest."""
    thoughts, rest, place = list[str](), list[str](), 0
    while (start := said.find(OPEN, place)) >= 0:
        end = said.find(CLOSE, start)
        if end < 0:
            break
        rest.append(said[place:start])
        thoughts.append(said[start + len(OPEN) : end])
        place = end + len(CLOSE)
    return thoughts, "".join([*rest, said[place:]])


def _turn_view(run: Path, turn: JsonRow) -> TurnView:
    thoughts, action = split_thoughts(turn["said"])
    return TurnView(
        images=tuple(uri for name in turn["images"] if (uri := data_uri(run / name))),
        observation=shorten(turn["shown"].replace("<image>", "").strip()),
        thought=shorten(" ".join(t.strip() for t in thoughts).strip()),
        action=shorten(action.strip()),
        reward=f"{turn['reward']:g}" if turn["reward"] else "",
        advantage="" if turn.get("advantage") is None else f"{turn['advantage']:+.2f}",
        valid=turn["valid"],
    )
