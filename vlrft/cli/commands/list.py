"""vlrft list: the names of tasks, rewards, algorithms, configs, engines, families or published systems, with a line on each."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
from collections import Counter
from collections.abc import Callable, Mapping
from textwrap import shorten
from typing import Any, get_args

from vlrft.config.shipped import shipped_configs
from vlrft.config.systems import Status, all_systems
from vlrft.plugins.find import find_reward, find_task, reward_names, task_names
from vlrft.schema.errors import ConfigError, PluginError

DOC_WIDTH = 120  # characters of a reward's description
Entries = Mapping[str, Mapping[str, Any]]


def run(args: argparse.Namespace) -> None:
    if args.kind == "systems":
        list_systems(args)
        return
    if args.status or args.of:
        raise ConfigError(
            ["--status and --of choose among systems: vlrft list systems --status works"]
        )
    makers = {
        "tasks": tasks,
        "rewards": rewards,
        "algorithms": algorithms,
        "configs": configs,
        "engines": engines,
        "families": families,
    }
    kinds = [args.kind] if args.kind else ["tasks", "rewards"]  # algorithms need torch
    listing = {kind: makers[kind]() for kind in kinds}
    if args.json:
        print(json.dumps(listing if args.kind is None else listing[args.kind], indent=1))
        return
    for kind, entries in listing.items():
        if kind == "configs":
            print("\n".join(table(entries)))
            continue
        print(f"{kind}:")
        width = max(map(len, entries), default=0)
        for name, entry in entries.items():
            print(f"  {name:{width}}  {entry['doc']}")
            for key in [k for k in entry if k != "doc"]:
                print(f"  {'':{width}}    {key}: {entry[key]}")
    if args.kind is None:
        print("more: vlrft list algorithms, configs, engines, families or systems")


def tasks() -> Entries:
    return {name: {"doc": _describe(name, lambda n: find_task(n).doc)} for name in task_names()}


def rewards() -> Entries:
    return {name: {"doc": _describe(name, _reward_doc)} for name in reward_names()}


def _describe(name: str, describe: Callable[[str], str]) -> str:
    """The description, or why a plugin of this name cannot be loaded."""
    try:
        return describe(name)
    except PluginError as e:
        return f"cannot be loaded: {e}"


def algorithms() -> Entries:
    from vlrft.algorithms import ALGORITHMS

    return {name: a.describe() for name, a in ALGORITHMS.items()}


def configs() -> Entries:
    """The task, model and stages of each shipped config, and the results that its paper reports."""
    from vlrft.config.load import load_config

    out: dict[str, dict[str, Any]] = {}
    for name, path in shipped_configs().items():
        config = load_config(path)
        model, build = config.policy.model, config.policy.build
        published = config.published
        out[name] = {
            "task": config.task.name,
            "model": model or (f"built {build.family}" if build else ""),
            "algorithm": " + ".join(str(s.name) for s in config.stages),
            "paper": "" if published is None else published.source,
            "published": {} if published is None else published.scores,
        }
    return out


def engines() -> Entries:
    """The train engines and the rollout engines, by the key of a config and the name."""
    from vlrft.engine import ENGINES
    from vlrft.rollout.engines import ROLLOUT_ENGINES

    kinds = {f"engine={name}": kind for name, kind in ENGINES.items()}
    kinds |= {f"rollout.engine={name}": kind for name, kind in ROLLOUT_ENGINES.items()}
    return {name: _describe_kind(kind) for name, kind in kinds.items()}


def _describe_kind(kind: Any) -> dict[str, str]:
    settings = ", ".join(f.name for f in dataclasses.fields(kind))
    doc = (inspect.getdoc(kind) or "").partition("\n\n")[0]
    short = shorten(doc, DOC_WIDTH, placeholder=" …")
    return {"doc": short, **({"settings": settings} if settings else {})}


def families() -> Entries:
    from vlrft.policy.families import all_families

    return {
        name: {
            "doc": f"{'text' if family.vision is None else 'images and text'}, {family.model_class}"
        }
        for name, family in all_families().items()
    }


def list_systems(args: argparse.Namespace) -> None:
    """A line for each published system that the arguments choose, and the counts by status."""
    chosen = [
        system
        for system in all_systems().values()
        if args.status in (None, system.status) and args.of in (None, system.kind)
    ]
    if args.json:
        print(json.dumps([dataclasses.asdict(system) for system in chosen], indent=1))
        return
    lines = [(f"{s.id}", s.status, s.kind, s.name, s.title) for s in chosen]
    widths = [max((len(line[k]) for line in lines), default=0) for k in range(4)]
    for number, *cells in lines:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths[1:], strict=False)]
        print(" ".join([number.rjust(widths[0]), *padded, cells[-1]]))
    counts = Counter(system.status for system in chosen)
    print(", ".join(f"{counts[status]} {status}" for status in get_args(Status) if counts[status]))


def table(entries: Entries) -> list[str]:
    """A line for each config, columns aligned."""
    head = ("config", "task", "model", "stages", "paper", "published (%)")
    rows: list[tuple[str, ...]] = [head]
    for name, e in entries.items():
        published = ", ".join(f"{k} {v:g}" for k, v in e["published"].items())
        rows.append((name, e["task"], e["model"], e["algorithm"], e["paper"], published))
    widths = [max(len(row[k]) for row in rows) for k in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _reward_doc(name: str) -> str:
    """The first paragraph on a reward: in its file's docstring, or for a variant in its own."""
    function = find_reward(name)
    documented = function if "." in name else inspect.getmodule(function)
    paragraph = (inspect.getdoc(documented) or "").partition("\n\n")[0]
    return shorten(paragraph, DOC_WIDTH, placeholder=" …")
