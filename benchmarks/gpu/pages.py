"""Rows of a GPU program in words, and the page of its results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]


def show(row: Row) -> str:
    """A row in words."""
    if "ended" in row:
        return f"{row['ended']} after {row['seconds']} s {row.get('error', '')}".rstrip()
    if "skipped" in row:
        return f"{row['what']}: not run: {row['skipped']}"
    if "bound" in row:
        return f"{row['what']}: {row['value']:.2g}, allowed {row['bound']:.2g}{'' if row['right'] else '  WRONG'}"
    return f"{row['what']}: {number(row['value'])} {row['unit']}"


def number(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def page(name: str, title: str, about: Sequence[str], here: Row, rows: Sequence[Row]) -> str:
    """The page of a program's results on one machine."""
    versions = ", ".join(f"{name} {number}" for name, number in here["versions"].items())
    gpu = f"{here['device']}, {here['memory'] / 2**30:.0f} GiB, CUDA {here['cuda']}" if here["cuda"] else here["device"]  # fmt: skip
    lines = [f"# {title}", "", f"`python -m benchmarks.gpu {name}`"]
    lines[-1] += f"{', tiny shapes in float32' if here['tiny'] else ''}: {about[0]}"
    lines += [*about[1:], "", f"{gpu}; Python {here['python']}, {versions}; commit {here['commit']}."]  # fmt: skip
    for case, commit in dict.fromkeys((row["case"], row["machine"]["commit"]) for row in rows):
        other = f", commit {commit}" * (commit != here["commit"])
        lines += [
            "",
            f"## {case}{other}",
            "",
            "| | value | allowed | |",
            "| --- | ---: | ---: | --- |",
        ]
        lines += [table_row(row) for row in rows if row["case"] == case]
    return "\n".join(lines) + "\n"


def table_row(row: Row) -> str:
    what = row["what"].replace("|", "\\|")
    if "ended" in row:
        return f"| {row['seconds']} s | | | {'' if row['ended'] == 'well' else '**' + row['ended'] + '** ' + row.get('error', '')} |"
    if "skipped" in row:
        return f"| {what} | | | not run: {row['skipped']} |"
    if "bound" in row:
        verdict = "" if row["right"] else "**wrong**"
        return f"| {what} | {row['value']:.2g} | {row['bound']:.2g} | {verdict} |"
    return f"| {what} | {number(row['value'])} {row['unit']} | | |"
