"""Hostile values for the keys of a config: each is refused in one line before the first step, or trains."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from benchmarks.campaign.case import Finding, Kind, Plan, Result
from benchmarks.campaign.outcome import judge_end, shown_line
from benchmarks.campaign.process import run
from benchmarks.campaign.runs import CONFIG

VALUES = (
    *(".nan", ".inf", "-.inf", "-1", "0", "1", "2", "0.0", "1e-320", "1e308", "1e400", "9" * 26, "1.5", "-0.0"),
    *("null", "true", "'no'", "''", "'\\u202e'", '"\\e[31m"', '"\\ud800"', '"\\0"', "[]", "[1]", "[-1, 2]", "{}", "{a: 1}"),
    *('[""]', "[.nan, .inf]", "[5.0, -1.0]", "[1.0, 1.0]", "!!python/object:os.system x", "&a [*a]", "*a", "[" * 3000),
    *("2026-13-45", "0x10", "1_000", "'../../etc/passwd'", "'/'", "'~'", "auto", "cuda:99", "meta", "float8"),
    *("9223372036854775808", "-9223372036854775809", "4294967296", "<<", "a\\0b", "x" * 5000),
)  # fmt: skip


def draw(random: Random) -> Plan:
    keys = _keys()
    count = random.choice((1, 1, 1, 2))
    return {"overrides": [f"{random.choice(keys)}={random.choice(VALUES)}" for _ in range(count)]}


@cache
def _keys() -> list[str]:
    """Every key of the small run's resolved config, sections too."""
    from vlrft.config.load import dump_config, load_config

    return sorted(set(_paths(yaml.safe_load(dump_config(load_config(CONFIG))), "")))


def _paths(tree: Any, path: str) -> list[str]:
    items: Any = []
    if isinstance(tree, Mapping):
        items = tree.items()
    elif isinstance(tree, list):
        items = enumerate(tree)
    own = [path] if path else []
    return own + [p for k, v in items for p in _paths(v, f"{path}.{k}" if path else str(k))]


def carry_out(plan: Plan, folder: Path) -> Result:
    ended = run(["train", str(CONFIG), *plan["overrides"], "--out", "run"], folder)
    findings = judge_end(ended)
    steps = (folder / "run/metrics.jsonl").exists()
    if ended.code == 1 and steps and "--out" in shown_line(ended):
        findings.append(
            Finding(outcome="unclear", text=f"refused only after steps: {shown_line(ended)}")
        )
    label = " ".join(o[:60] for o in plan["overrides"])
    findings = [Finding(outcome=f.outcome, text=f"{label}: {f.text[:300]}") for f in findings]
    return Result(findings=tuple(findings), shown=f"{label}: {ended.code} {shown_line(ended)}")


SETTINGS = Kind(
    name="settings",
    doc="hostile values for one or two keys of a config",
    draw=draw,
    run=carry_out,
    share=1.0,
)
