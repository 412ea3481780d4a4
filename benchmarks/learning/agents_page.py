"""The page of `agents`: a line for each run, and the mean gain of each algorithm and of its control."""

from __future__ import annotations

from statistics import mean
from typing import Any

Row = dict[str, Any]


def arm(row: Row) -> str:
    """The algorithm, and whether it is its control."""
    return f"{row['algorithm']}, rewards permuted" if row["control"] else row["algorithm"]


def percent(metric: Row) -> str:
    low, high = metric["ci"]
    return f"{100 * metric['score']:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def shares(row: Row, name: str) -> str:
    """Before and after, in percent; a dash where the task has no such metric."""
    if name not in row["before"]:
        return "–"
    return " → ".join(f"{100 * row[side][name]['score']:.1f}" for side in ("before", "after"))


def table(rows: list[Row]) -> list[str]:
    lines = [
        "| algorithm | seed | success before | after | paired gain | steps per episode | valid actions, % | admissible, % | tokens per turn | s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for r in rows:
        before, after, ends = r["before"], r["after"], r["first_and_last_five_steps"]
        low, high = r["gain_ci"]
        tokens = " → ".join(f"{v:.1f}" for v in ends["length/turn_mean"])
        lines.append(
            f"| {arm(r)} | {r['seed']} | {percent(before['success'])} | {percent(after['success'])} "
            f"| {100 * r['gain']:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}] "
            f"| {before['steps']['score']:.2f} → {after['steps']['score']:.2f} "
            f"| {shares(r, 'valid')} | {shares(r, 'admissible')} | {tokens} "
            f"| {r['seconds']['total']:.0f} |"
        )
    for name in dict.fromkeys(map(arm, rows)):
        runs = [r for r in rows if arm(r) == name]
        gains = [100 * r["gain"] for r in runs]
        clear = sum(r["gain_ci"][0] > 0 for r in runs)
        lines += [
            "",
            f"{name}: mean gain {mean(gains):+.1f} points over {len(runs)} seeds "
            f"({min(gains):+.1f} to {max(gains):+.1f}), {clear} of them with an interval above 0.",
        ]
    return lines
