"""Tables and the picture of the rows that claims.py wrote.

    python benchmarks/claims_report.py benchmarks/results/claims_2026-11-21.jsonl

Prints the tables as Markdown; writes claims.svg beside the rows. Intervals are 95 % bootstrap over seeds: with three
seeds they reach from the least number to the greatest, and say little.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from vlrft.intervals import bootstrap

Row = Mapping[str, Any]
SWEEP_SEED, THRESHOLD = 100, 0.7


def last(row: Row) -> float:
    return 100 * float(row["evals"][-1][2])


def start(row: Row) -> float:
    return 100 * float(row["evals"][0][2])


def curve(row: Row) -> float:
    return 100 * float(mean(e[2] for e in row["evals"]))


def reach(column: int) -> Callable[[Row], float | None]:
    """Steps (0) or rollouts (1) at the first evaluation at the threshold; None: never."""

    def found(row: Row) -> float | None:
        return next((float(e[column]) for e in row["evals"] if e[2] >= THRESHOLD), None)

    return found


def over(name: str, aggregate: Callable[[list[float]], float]) -> Callable[[Row], float]:
    return lambda row: float(aggregate([s[name] for s in row["steps"]]))


def final(name: str, count: int = 5) -> Callable[[Row], float]:
    """Mean over the last steps."""
    return lambda row: float(mean(s[name] for s in row["steps"][-count:]))


COLUMNS: dict[str, Callable[[Row], float | None]] = {
    "accuracy at the start": start,
    "final accuracy": last,
    "mean of the curve": curve,
    "reward, last 5 steps": lambda row: 100 * final("reward")(row),
}
OWN: dict[str, dict[str, Callable[[Row], float | None]]] = {
    "gpg": {f"steps to {THRESHOLD:.0%}": reach(0), f"rollouts to {THRESHOLD:.0%}": reach(1)},
    "gmpo": {
        "least log ratio": over("log_ratio_min", min),
        "greatest log ratio": over("log_ratio_max", max),
        "entropy, last 5 steps": final("entropy"),
        "gradient norm, mean": over("norm", mean),
        "gradient norm, greatest": over("norm_max", max),
    },
    "gvpo": {"entropy, last 5 steps": final("entropy"), "gradient norm, mean": over("norm", mean)},
    "cw": {
        "entropy, first step": lambda row: float(row["steps"][0]["entropy"]),
        "entropy, last 5 steps": final("entropy"),
        "share of tokens with w < 0.5": over("below_half", mean),
    },
}


def cell(values: list[float | None]) -> str:
    got = [v for v in values if v is not None]
    if not got:
        return "never"
    low, high = bootstrap(got)
    digits = 1 if max(map(abs, got)) >= 10 else 3
    missed = f", {len(values) - len(got)} never" if len(got) < len(values) else ""
    return f"{mean(got):.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]{missed}"


def arms(rows: list[Row], comparison: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row["comparison"] == comparison and row["seed"] != SWEEP_SEED:
            found.setdefault(row["arm"], []).append(row)
    return found


def table(rows: list[Row], comparison: str) -> str:
    columns = COLUMNS | OWN[comparison]
    lines = [
        "| " + " | ".join(["arm", "seeds", "rate", *columns, "final − first arm's"]) + " |",
        "| --- " * (len(columns) + 4) + "|",
    ]
    by_arm = arms(rows, comparison)
    base = {r["seed"]: last(r) for r in next(iter(by_arm.values()))}
    for name, own in by_arm.items():
        gain: list[float | None] = [last(r) - base[r["seed"]] for r in own if r["seed"] in base]
        cells = [cell([read(r) for r in own]) for read in columns.values()]
        lines.append(
            "| "
            + " | ".join([name, str(len(own)), f"{own[0]['rate']:g}", *cells, cell(gain)])
            + " |"
        )
    return "\n".join(lines)


def picture(rows: list[Row]) -> str:
    """Final accuracy of each arm with its interval, a dot a seed; a panel a comparison."""
    names = [n for n in OWN if arms(rows, n)]
    parts, y = [], 20
    width, left = 900, 230

    def at(value: float) -> float:
        return left + (width - left - 30) * value / 100

    for comparison in names:
        parts.append(f'<text x="10" y="{y}" font-weight="bold">{comparison}</text>')
        for name, own in arms(rows, comparison).items():
            y += 22
            values = [last(r) for r in own]
            low, high = bootstrap(values)
            parts.append(f'<text x="{left - 12}" y="{y + 4}" text-anchor="end">{name}</text>')
            parts.append(
                f'<path d="M{at(low):.1f} {y}H{at(high):.1f}" stroke="#357" stroke-width="3"/>'
            )
            parts.append(
                f'<rect x="{at(mean(values)) - 2:.1f}" y="{y - 7}" width="4" height="14" fill="#357"/>'
            )
            parts += [
                f'<circle cx="{at(v):.1f}" cy="{y}" r="4" fill="none" stroke="#c63"/>'
                for v in values
            ]
        y += 34
    grid = [
        f'<path d="M{at(v)} 25V{y - 20}" stroke="#ddd"/><text x="{at(v)}" y="{y}"'
        f' text-anchor="middle">{v}</text>'
        for v in range(0, 101, 20)
    ]
    caption = (
        f'<text x="{left}" y="{y + 20}">greedy accuracy at the last evaluation (gvpo: trained prompts), %: '
        "mean, 95 % interval, a circle a seed</text>"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y + 35}" '
        'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="#fff"/>'
        + "".join([*grid, *parts, caption])
        + "</svg>\n"
    )


def main() -> None:
    source = Path(sys.argv[1])
    rows: list[Row] = [json.loads(line) for line in source.read_text().splitlines()]
    for comparison in OWN:
        if arms(rows, comparison):
            print(f"## {comparison}\n\n{table(rows, comparison)}\n")
    source.with_name("claims.svg").write_text(picture(rows))


if __name__ == "__main__":
    main()
