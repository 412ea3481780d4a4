"""Compares, where ranks meet, the facts that must be equal on all of them: ranks that disagree train something that nobody asked for, or
wait for each other for ever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlrft.distributed.ranks import Ranks
from vlrft.schema.errors import ConfigError
from vlrft.schema.secrets import redact_settings

Facts = Mapping[str, str]
"""Name of a setting, a file or a weight -> its value or a hash of it."""

MAX_LINES = 10
MAX_VALUE = 120  # characters
ABSENT = "nothing"
ADVICE = "start all ranks with the same command, code, data and model"


def require_agreement(ranks: Ranks, facts: Facts) -> None:
    """Raises ConfigError on every rank, with each name and the values of the ranks, where the ranks have different facts."""
    if ranks.size == 1:
        return
    mistakes = disagreements([part[0] for part in ranks.gather([dict(facts)])])
    if mistakes:
        ranks.gather([])  # no rank leaves, and ends the connection, before each has the facts
        more = len(mistakes) - MAX_LINES
        rest = [f"… and {more} more differences"] if more > 0 else []
        raise ConfigError([*mistakes[:MAX_LINES], *rest, ADVICE])


def disagreements(facts: Sequence[Facts]) -> list[str]:
    """A line for each name whose values differ. `facts`: those of each rank."""
    names = list(dict.fromkeys(name for one in facts for name in one))
    lines: list[str] = []
    for name in names:
        ranks_of: dict[str, list[int]] = {}
        for rank, one in enumerate(facts):
            ranks_of.setdefault(one.get(name, ABSENT), []).append(rank)
        if len(ranks_of) > 1:
            values = "; ".join(
                f"{_show_value(name, v)} on {_name_ranks(r)}" for v, r in ranks_of.items()
            )
            lines.append(f"{name} differs between ranks: {values}")
    return lines


def _show_value(name: str, value: str) -> str:
    """The value without secrets, which its name or its form may show it to be."""
    setting = name.rpartition(".")[2]
    text = redact_settings({setting: value})[setting]
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"


def _name_ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:8])) + (", …" if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"
