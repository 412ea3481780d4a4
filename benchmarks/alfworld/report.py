"""Writes alfworld.md from the results in alfworld.json, one section per part."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Section = Callable[[dict[str, Any]], Iterator[str]]  # a part's results -> Markdown lines


def write(folder: Path, parts: Mapping[str, Section]) -> None:
    """Write the page of all parts measured so far."""
    results = json.loads((folder / "alfworld.json").read_text(encoding="utf-8"))
    sections = [section(results[name]) for name, section in parts.items() if name in results]
    versions = ", ".join(f"{k} {v}" for k, v in results["versions"].items())
    head = [
        "# ALFWorld on the real engine",
        "",
        "Written by `python -m benchmarks.alfworld --data DIR`. "
        f"{versions}; Python {results['python']}, {results['cores']} cores.",
        "The games are generated, not those of ALFRED, so success rates are not comparable with "
        "papers'; the engine is the real one.",
    ]
    lines = [*head, *(line for section in sections for line in section)]
    (folder / "alfworld.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def generation(f: dict[str, Any]) -> Iterator[str]:
    count = sum(f["games"].values())
    splits = ", ".join(f"{split} {n}" for split, n in f["games"].items())
    yield from ("", "## Games", "", f"{count} games ({splits}); {f['drawn_again']} draws repeated.")
    if f["made"]:
        yield (
            f"{f['made']} generated in {f['wall_s']:.0f} s, {f['processor_s']:.0f} processor seconds: "
            f"{f['made'] / f['processor_s']:.2f} games per processor second (load {f['load']:.1f})."
        )
    yield (
        f"Of the {f['scenes']['valid_unseen']} scenes of valid_unseen {f['unseen_scenes_in_train']} "
        f"are in train, and {f['unseen_receptacles_in_train']} of their receptacles; of the "
        f"{f['scenes']['valid_seen']} scenes of valid_seen {f['seen_scenes_in_train']} are in train. "
        f"{f['same_problem_twice']} problems occur twice."
    )


def stock(f: dict[str, Any]) -> Iterator[str]:
    splits = [(s, v) for s, v in f.items() if isinstance(v, dict)]
    counts = ", ".join(f"{s} {v['won']} of {v['taken']}" for s, v in splits)
    yield ""
    yield f"The planner's commands in the stock AlfredTWEnv win (score 1, done): {counts}."


def players(f: dict[str, Any]) -> Iterator[str]:
    names = [n for n, v in f.items() if isinstance(v, dict)]
    yield from ("", "## Players without a model", "")
    yield "Games won within 50 steps, and the mean steps of those won."
    yield "`handcoded_released` is alfworld's expert as it ships; `handcoded` reads `move` as `put`."
    yield ""
    yield f"| family | games | {' | '.join(f'{n} | steps' for n in names)} |"
    yield f"|---|---|{'---|---|' * len(names)}"
    for family in f[names[0]]:
        tallies = [f[n][family] for n in names]
        cells = " | ".join(f"{v['won']} | {v['steps']:.1f}" for v in tallies)
        yield f"| {family} | {tallies[0]['games']} | {cells} |"
    totals = [
        f"{sum(v['won'] for v in f[n].values())} | {sum(v['won'] * v['steps'] for v in f[n].values()) / max(1, sum(v['won'] for v in f[n].values())):.1f}"
        for n in names
    ]
    yield f"| all | {sum(v['games'] for v in f[names[0]].values())} | {' | '.join(totals)} |"


def traces(f: dict[str, Any]) -> Iterator[str]:
    ms = f["median_ms"]
    yield from ("", "## Compared with the stock environment", "")
    yield (
        f"Observations, admissible commands, scores and ends of {f['games']} games, {f['steps']} "
        f"random steps: {f['equal']} games equal; sha256 {f['sha256']['stock'][:16]} (stock), "
        f"{f['sha256']['ours'][:16]} (ours)."
    )
    yield from ("", "| median, processor ms | stock | ours |", "|---|---|---|")
    yield f"| first start of a game | {ms['stock_start']:.0f} | {ms['cold_start']:.0f} |"
    yield f"| later start of the same game | {ms['stock_start']:.0f} | {ms['warm_start']:.0f} |"
    yield f"| step | {ms['stock_step']:.1f} | {ms['step']:.2f} |"
    yield f"| steps per second | {1e3 / ms['stock_step']:.0f} | {1e3 / ms['step']:.0f} |"


def memory(f: dict[str, Any]) -> Iterator[str]:
    yield (
        f"| MB of a process with one game | {f['stock']['first']:.0f} | {f['ours']['first']:.0f} |"
    )
    yield f"| MB of each further game | {f['stock']['each']:.1f} | {f['ours']['each']:.1f} |"


def workers(f: dict[str, Any]) -> Iterator[str]:
    yield from ("", "## Many at once", "")
    yield "Random players, wall seconds; eight environments per game, as in a group."
    yield from ("", "| where | environments | starts, s | steps | s | steps per second |")
    yield "|---|---|---|---|---|---|"
    for where, v in f.items():
        if isinstance(v, dict):
            yield (
                f"| {where} | {v['environments']} | {v['start_s']:.1f} | {v['steps']} | "
                f"{v['steps_s']:.1f} | {v['steps'] / v['steps_s']:.0f} |"
            )
    yield ""
    yield f"Load of the machine at the end: {f['load']:.1f}."
