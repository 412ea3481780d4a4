"""Operators that a sampled token and an update dispatch, and host syncs, beside `generate()` and another checkout.

    python -m benchmarks.operators [--against DIR] [--families qwen2_vl qwen2_5_vl] [--layers 28] [--out FOLDER]

An operator is one that computes something (views and empty memory are left out): on a GPU it launches at least one kernel,
so that the number is a proxy for kernels, not a count of them. A sync is a place where the host waits for a value of the
device. Both are counted on a CPU (vlrft/testing/operator_meter.py), on models with the depth of Qwen2-VL-2B (28 layers, 32
of the vision tower) and small widths, in bfloat16; a path that only a GPU takes is not seen. --against: a checkout of
another commit, whose counts are `before`; the two sides' cases run in turn. Writes operators.md, and operators.jsonl,
from which a case that was counted with the same commit is not counted again.
"""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.in_checkout import run_lines
from benchmarks.records import Records, commit_of

HERE = Path(__file__).resolve().parents[2]
Row = dict[str, Any]
LORA = {False: "all weights", True: "LoRA"}


def page(rows: list[Row], before: str | None, after: str, layers: int) -> str:
    """The tables of one pair of commits."""
    text = [
        "# Operators and host syncs",
        "",
        f"`python -m benchmarks.operators`: dispatched operators without views, a proxy for kernels, and host syncs. Models with {layers}",
        "decoder layers and the vision tower's 32, small widths, bfloat16, counted on a CPU; what only a GPU runs is not seen. `token`:",
        "one more token of a rollout, with its sampling. An image has 448 × 448 pixels, a group 8 answers of 16 tokens.",
        "",
        f"Python {platform.python_version()}, torch {version('torch')}, transformers {version('transformers')}, peft {version('peft')}; "
        + (f"before: {before}; " if before else "")
        + f"after: {after}.",
    ]
    cases = dict.fromkeys((row["case"]["family"], row["case"]["lora"]) for row in rows)
    for family, lora in cases:
        here = [r for r in rows if (r["case"]["family"], r["case"]["lora"]) == (family, lora)]
        text += ["", f"## {family}, {LORA[lora]}", ""]
        text += table(here, before, after)
    return "\n".join(text) + "\n"


def table(rows: list[Row], before: str | None, after: str) -> list[str]:
    """A line for each piece of work; `generate()` is the same on both sides, and its syncs are beside its operators."""
    by_work: dict[str, dict[tuple[str, str], Row]] = {}
    for row in rows:
        by_work.setdefault(row["work"], {})[row["side"], row["commit"]] = row
    head = ["work", "before", "after", "after / before", "`generate()`", "syncs before", "after", "`generate()`"]  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "| --- |" + " ---: |" * (len(head) - 1)]
    for work, by_side in by_work.items():
        old, new = by_side.get(("vlrft", str(before))), by_side.get(("vlrft", after))
        other = by_side.get(("generate()", after))
        ratio = new["operators"] / old["operators"] if old and new and old["operators"] else None
        cells = [
            work,
            *(write_value(side, "operators") for side in (old, new)),
            "" if ratio is None else f"{ratio:.2f}",
            write_value(other, "operators"),
            *(write_value(side, "syncs") for side in (old, new, other)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def write_value(row: Row | None, key: str) -> str:
    if row is None:
        return ""
    value = row[key]
    return f"{value:,.0f}" if key == "operators" or value == int(value) else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, help="a checkout of another commit")
    parser.add_argument("--families", nargs="+", default=["qwen2_vl", "qwen2_5_vl"])
    parser.add_argument("--layers", type=int, default=28, help="of the decoder")
    parser.add_argument("--vision-layers", type=int, default=32)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    sides = [HERE] if args.against is None else [args.against.resolve(), HERE]
    commits = {side: commit_of(side) for side in sides}
    records = Records(args.out / "operators.jsonl")
    for lora in (False, True):
        for family in args.families:
            sizes = {"layers": args.layers, "vision_layers": args.vision_layers}
            case = {"family": family, "lora": lora, **sizes}
            for side in sides:
                key = {"case": case, "commit": commits[side]}
                if records.find(key):
                    continue
                lines = run_lines(side, "benchmarks.operators.case", json.dumps(case))
                records.add([key | json.loads(line) for line in lines])
                print(f"{commits[side]}: {family}, {LORA[lora]}: {len(lines)} counts", flush=True)
    wanted = [
        row
        for row in records.rows
        if row["commit"] in commits.values() and row["case"]["layers"] == args.layers
    ]
    before = None if args.against is None else commits[sides[0]]
    text = page(wanted, before, commits[HERE], args.layers)
    (args.out / "operators.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
