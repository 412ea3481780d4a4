"""Writes docs/reference/systems.md from the catalogue of published systems: `python docs/systems.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import yaml

from vlrft.config.systems import Reduction, Status, System, all_systems

PAGE = Path(__file__).parent / "reference" / "systems.md"
HEAD = """# Published systems

This page is generated from the catalogue in `vlrft/config/systems/` (`make docs`): {counts}. `vlrft list systems --status works` prints
rows, `vlrft show system:124` one of them with its config, and `vlrft train system:124` runs it, with `KEY=VALUE` as for any config.

*Works*: the config runs what the paper describes, on the task of its base. *Part*: the row says what is missing. *Planned*: the row
says what vlrft lacks. *Out*: outside of what vlrft is for. *Source* is what the row was written from: an abstract alone says
little about the equation, and *paper, unchecked* was not compared with the paper's text. A paper's place is given where it was seen.
*It is 124*: under these settings its loss and gradient are those of that row, as `tests/systems/test_reductions.py` checks to 1e-12.
"""
TITLES = {
    "works": "Works",
    "part": "Works in part",
    "planned": "Planned",
    "out": "Out of scope",
}


def page() -> str:
    """The page's Markdown."""
    systems = all_systems().values()
    counts = Counter(s.status for s in systems)
    said = ", ".join(f"{counts[status]} {status}" for status in get_args(Status))
    parts = [HEAD.format(counts=said)]
    for status in get_args(Status):
        parts += [
            f"## {TITLES[status]}\n",
            "| number | system | kind | config, and what it lacks | source |",
            "| ---: | --- | --- | --- | --- |",
        ]
        parts += [_row(s) for s in systems if s.status == status]
        parts.append("")
    return "\n".join(parts)


def _row(system: System) -> str:
    paper = f", {system.paper}" if system.paper else ""
    name = f"**{_cell(system.name)}**: {_cell(system.title)}{paper}"
    return f"| {system.id} | {name} | {system.kind} | {_text(system)} | {system.source} |"


def _text(system: System) -> str:
    """Its config, and what it lacks or needs."""
    written = _config(system)
    lacks = f"lacks {system.lacks}" if system.status == "part" else system.lacks
    needs = f"needs {', '.join(system.needs)}" if system.needs else ""
    equal = "; ".join(_reduction(r) for r in system.reduces)
    parts = [written, _cell(needs), _cell(lacks), _cell(system.note), equal]
    return "; ".join(filter(None, parts))


def _reduction(reduction: Reduction) -> str:
    """The system that it is under these settings."""
    given = f" with `{_yaml(reduction.given)}`" if reduction.given else ""
    there = f" with `{_yaml(reduction.there)}`" if reduction.there else ""
    when = "" if reduction.at is None else f" when {reduction.at:.0%} of the stage is done"
    return f"{given}{when} it is {reduction.to}{there}".strip()


def _config(system: System) -> str:
    if not system.runs:
        return ""
    parts = [f"`{system.base}`"]
    parts += [f"`{_yaml(system.config)}`"] if system.config else []
    parts += [f"`{_yaml(system.stage)}` in its last stage"] if system.stage else []
    first, *changes = parts
    return " with ".join([first, " and ".join(changes)]) if changes else first


def _yaml(changes: Mapping[str, Any]) -> str:
    text = yaml.safe_dump(dict(changes), default_flow_style=True, width=10_000, sort_keys=False)
    return _cell(text.strip()[1:-1])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
