"""Time and memory of an update against one size at a time, beside another checkout, and whether they grow linearly.

    python -m benchmarks.scaling [--against DIR] [--full] [--sweeps group answer] [--repeats 1] [--out FOLDER]

Sweeps: answers in a group (2 to 64), tokens of an answer (32 to 1,024), words of the prompt (40 to 2,400), tokens of a
micro-batch (1,024 to 16,384); without --full only some of the values. Each sweep of each checkout runs in a process of its
own on one thread, in turn. Measured: processor seconds and peak resident memory of an update. Counted: FLOPs of attention
and bytes that the forward passes keep for the backward passes, which depend on no machine. Exit code 1 where the counts
of this checkout do not grow linearly: saved bytes with the group and with the answer, FLOPs of attention with the group.
Writes scaling.md, and scaling.jsonl, from which points of the same commit are not measured again.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from importlib.metadata import version
from math import log
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.in_checkout import run_lines
from benchmarks.records import Records, commit_of

HERE = Path(__file__).resolve().parents[2]
Row = dict[str, Any]
SWEEPS: dict[str, tuple[Row, ...]] = {
    "group": tuple({"group": n} for n in (2, 4, 8, 16, 32, 64)),
    "answer": tuple({"answer": n, "prompts": 2} for n in (32, 64, 128, 256, 512, 1024)),
    "words": tuple({"words": n} for n in (40, 200, 800, 2400)),
    "budget": tuple(
        {"budget": n, "group": 32, "answer": 256, "prompts": 2}
        for n in (1024, 2048, 4096, 8192, 16_384)
    ),
}
FEW: dict[str, int] = {"group": 5, "answer": 4, "words": 3, "budget": 3}  # values without --full
TITLES = {
    "group": "Answers in a group (64 tokens each, 4 prompts)",
    "answer": "Tokens of an answer (groups of 8, 2 prompts)",
    "words": "Words of the prompt (groups of 8, answers of 64 tokens, 4 prompts)",
    "budget": "Tokens of a micro-batch (groups of 32, answers of 256 tokens, 2 prompts)",
}
LINEAR = {"group": ("attention_flops", "saved_bytes"), "answer": ("saved_bytes",)}
ALLOWED = 1.05  # of the exponent of growth between the last two points: 1 is linear, 2 quadratic
MEASURED = (("seconds", "processor s", 1.0, 2), ("bytes", "peak MB", 1e6, 0))
COUNTED = (("attention_flops", "attention GFLOP", 1e9, 1), ("saved_bytes", "saved MB", 1e6, 0))


def growth(xs: list[float], ys: list[float]) -> float:
    """The exponent of growth between the last two points, x doubling or more."""
    return log(ys[-1] / ys[-2]) / log(xs[-1] / xs[-2])


class Side:
    """The rows of one checkout: the middle of repeats for what is measured."""

    def __init__(self, records: Records, commit: str) -> None:
        self.records, self.commit = records, commit

    def values(self, sweep: str, key: str) -> list[float]:
        values: list[float] = []
        for point in SWEEPS[sweep]:
            rows = self.records.find({"commit": self.commit, "sweep": sweep, "point": point})
            if rows:
                values.append(median(row[key] for row in rows))
        return values


def table(sweep: str, sides: list[Side]) -> list[str]:
    """A line for each value: before, after and their ratio; the last line has the exponents of growth."""
    new = sides[-1]
    xs = [point[sweep] for point in SWEEPS[sweep]][: len(new.values(sweep, "bytes"))]
    head, columns, growths = [sweep], [[f"{x:,}" for x in xs]], ["growth"]
    for key, title, unit, digits in (*MEASURED, *COUNTED):
        series = [side.values(sweep, key) for side in sides]
        for values, name in zip(series, ("before", "after")[-len(sides) :], strict=True):
            head.append(f"{title} {name}" if len(sides) > 1 else title)
            columns.append([f"{value / unit:,.{digits}f}" for value in values])
            growths.append(f"{growth(xs, values):.2f}" if len(values) > 1 else "")
        if len(series) == 2:
            head.append("before / after")
            columns.append([f"{a / b:.1f}" for a, b in zip(*series, strict=True)])
            growths.append("")
    lines = [f"| {' | '.join(head)} |", "|" + " ---: |" * len(head)]
    lines += [f"| {' | '.join(cells)} |" for cells in zip(*columns, strict=True)]
    return [*lines, f"| {' | '.join(growths)} |"]


def page(sweeps: list[str], sides: list[Side]) -> str:
    before = f"before: {sides[0].commit}; " if len(sides) > 1 else ""
    text = [
        "# Cost of an update against one size at a time",
        "",
        "`python -m benchmarks.scaling`: a Qwen2-VL of three layers, 128 wide, float32, one thread; prompts with an image of 16 tokens.",
        "Processor seconds and the peak of resident memory above its level before the update are measured; FLOPs of attention (all pairs",
        "of queries and keys that an operator got) and bytes kept for the backward pass are counted. The last line of a table is the",
        "exponent of growth between its last two values: 1 is linear, 2 quadratic. An answer attends to itself, so that FLOPs of attention",
        "keep a term of C² for each answer, which the counter takes whole though it is causal.",
        "",
        f"Python {platform.python_version()}, torch {version('torch')}, transformers {version('transformers')}; {before}after: {sides[-1].commit}.",
    ]
    for sweep in sweeps:
        text += ["", f"## {TITLES[sweep]}", "", *table(sweep, sides)]
    return "\n".join(text) + "\n"


def nonlinear(sweeps: list[str], side: Side) -> list[str]:
    """The counts that grow faster than linearly."""
    wrong: list[str] = []
    for sweep in sweeps:
        xs = [point[sweep] for point in SWEEPS[sweep]]
        for key in LINEAR.get(sweep, ()):
            values = side.values(sweep, key)
            exponent = growth(xs[: len(values)], values)
            if exponent > ALLOWED:
                wrong.append(f"{key} grow with the {sweep} to the power of {exponent:.2f}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, help="a checkout of another commit")
    parser.add_argument("--full", action="store_true", help="all values")
    parser.add_argument("--sweeps", nargs="+", choices=list(SWEEPS), default=list(SWEEPS))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    folders = [HERE] if args.against is None else [args.against.resolve(), HERE]
    records = Records(args.out / "scaling.jsonl")
    sides = [Side(records, commit_of(folder)) for folder in folders]
    for sweep in args.sweeps:
        points = SWEEPS[sweep] if args.full else SWEEPS[sweep][: FEW[sweep]]
        for repeat in range(args.repeats):
            for side, folder in zip(sides, folders, strict=True):
                key = {"commit": side.commit, "sweep": sweep, "repeat": repeat}
                missing = [p for p in points if not records.find(key | {"point": p})]
                if missing:
                    lines = run_lines(folder, "benchmarks.scaling.case", json.dumps(missing))
                    results = zip(missing, map(json.loads, lines), strict=True)
                    records.add([key | {"point": p} | result for p, result in results])
                    print(f"{side.commit}: {sweep}, {len(missing)} points", flush=True)
    text = page(args.sweeps, sides)
    (args.out / "scaling.md").write_text(text, encoding="utf-8")
    print(text)
    wrong = nonlinear(args.sweeps, sides[-1])
    print("\n".join(wrong) or "linear where it should be", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
