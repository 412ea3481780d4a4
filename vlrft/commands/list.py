"""vlrft list"""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Mapping
from typing import Any

from vlrft.plugins import find_reward, find_task, reward_names, task_names

Entries = Mapping[str, Mapping[str, Any]]


def run(args: argparse.Namespace) -> None:
    makers = {"tasks": tasks, "rewards": rewards, "algorithms": algorithms}
    kinds = [args.kind] if args.kind else ["tasks", "rewards"]  # algorithms need torch
    found = {kind: makers[kind]() for kind in kinds}
    if args.json:
        print(json.dumps(found if args.kind is None else found[args.kind], indent=1))
        return
    for kind, entries in found.items():
        print(f"{kind}:")
        width = max(map(len, entries), default=0)
        for name, entry in entries.items():
            print(f"  {name:{width}}  {entry['doc']}")
            for key in [k for k in entry if k != "doc"]:
                print(f"  {'':{width}}    {key}: {entry[key]}")
    if args.kind is None:
        print("algorithms: vlrft list algorithms")


def tasks() -> Entries:
    return {name: {"doc": find_task(name).doc} for name in task_names()}


def rewards() -> Entries:
    return {name: {"doc": _first_line(find_reward(name))} for name in reward_names()}


def algorithms() -> Entries:
    from vlrft.algorithms import ALGORITHMS

    return {name: a.describe() for name, a in ALGORITHMS.items()}


def _first_line(function: object) -> str:
    """Of the file that holds the function: it says what the reward is; the function's own says how it pays."""
    return (inspect.getdoc(inspect.getmodule(function)) or "").split("\n")[0]
