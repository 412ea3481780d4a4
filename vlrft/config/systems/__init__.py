"""Published systems: what each is, whether it runs here, and the config that runs it, by name `system:NUMBER`.

The rows are in the YAML files of this folder; 1 to 195 are the numbers of the list that the catalogue began with, others
begin at 200. A system that runs names a shipped config, its `base`, and what differs from it: `config`, whose `algorithm`
and `stages` replace those of the base, and `stage`, for the last stage alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from pydantic import TypeAdapter

from vlrft.config.shipped import find_config
from vlrft.config.strict import strict
from vlrft.config.yaml_text import parse_yaml
from vlrft.config.yaml_tree import Tree, merge, read_tree
from vlrft.plugins.names import did_you_mean
from vlrft.schema.errors import ConfigError
from vlrft.schema.ranges import UnitInterval

PREFIX = "system:"
_REPLACED = ("algorithm", "stages")  # keys of `config` that replace the base's as a whole

Kind = Literal[
    "objective",
    "advantage",
    "credit",
    "selection",
    "reward",
    "rollout",
    "optimiser",
    "preference",
    "task",
    "recipe",
    "engine",
    "prompt",
    "other",
]
Status = Literal["works", "part", "planned", "out"]
Need = Literal[
    "objective",
    "advantage step",
    "selector",
    "keep rule",
    "prompt strategy",
    "replay",
    "reward",
    "environment",
    "task pack",
    "token signals",
    "step context",
    "injection",
    "rollout plan",
    "spans",
    "second generation pass",
    "frozen scorer",
    "prompt variants",
    "preference pairs",
    "branching",
    "critic",
    "optimiser hooks",
    "prompt-side loop",
    "code sandbox",
    "judge",
    "form unknown",
]
Source = Literal["full text", "authors' code", "paper, unchecked", "abstract"]


@strict
class Reduction:
    """Settings under which a system's loss is that of another one, on any rollouts."""

    to: int
    """The other's number."""
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of this one's algorithm."""
    there: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of the other's algorithm."""
    at: UnitInterval | None = None
    """The share of the stage that is done; null: at any time."""

    def __str__(self) -> str:
        """`124 when 1.0 of the stage is done, with {…}, there {…}`."""
        parts = [f"with {dict(self.given)}"] if self.given else []
        parts += [f"there with {dict(self.there)}"] if self.there else []
        when = "" if self.at is None else f" when {self.at:.0%} of the stage is done"
        return f"{self.to}{when}{', ' if parts else ''}{', '.join(parts)}"


@strict
class System:
    """A row of the catalogue."""

    id: int
    name: str
    title: str
    """Of its paper."""
    kind: Kind
    status: Status
    """works: its config runs what the paper describes. part: `lacks` says what it does not. planned: `needs` says what vlrft
    lacks. out: outside of vlrft's scope, `lacks` says why."""
    source: Source
    """The text or code from which the row was written."""
    paper: str = ""
    """Its place, where it was seen."""
    base: str = ""
    """The shipped config that its own is made from."""
    config: Mapping[str, Any] | None = None
    stage: Mapping[str, Any] | None = None
    lacks: str = ""
    needs: tuple[Need, ...] = ()
    note: str = ""
    reduces: tuple[Reduction, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether it has a config."""
        return bool(self.base)


@cache
def all_systems() -> Mapping[int, System]:
    """Every system by its number."""
    read = TypeAdapter(list[System]).validate_python
    tables = (f for f in files(__name__).iterdir() if f.name.endswith(".yaml"))
    rows = [row for f in tables for row in read(parse_yaml(f.read_text(encoding="utf-8")))]
    return {row.id: row for row in sorted(rows, key=lambda row: row.id)}


def find_system(reference: str) -> System:
    """The system of `system:NUMBER` or `system:NAME`. Raises ConfigError for an unknown one."""
    wanted = reference.removeprefix(PREFIX)
    systems = all_systems()
    if wanted.isdecimal() and int(wanted) in systems:
        return systems[int(wanted)]
    named = [s for s in systems.values() if s.name.casefold() == wanted.casefold()]
    if len(named) == 1:
        return named[0]
    hint = did_you_mean(wanted, [s.name for s in systems.values()])
    raise ConfigError(
        [
            f"{reference}: no system of that number, {min(systems)} to {max(systems)}, or name{hint or ';'} `vlrft list systems` "
            "prints all"
        ]
    )


def system_tree(system: System) -> Tree:
    """The config that runs the system, not yet validated. Raises ConfigError for a system without one."""
    if not system.runs:
        why = f"needs {', '.join(system.needs)}" if system.needs else system.lacks
        raise ConfigError([f"system:{system.id} ({system.name}) is {system.status}: {why}"])
    changes = dict(system.config or {})
    base = read_tree(find_config(system.base))
    base = {key: value for key, value in base.items() if not (key in _REPLACED and key in changes)}
    tree: Tree = merge(base, changes)
    if system.stage:
        *first, last = tree["stages"]
        tree["stages"] = [*first, merge(last, system.stage)]
    return tree
