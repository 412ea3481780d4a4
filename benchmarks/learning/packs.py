"""Each pack from raw files to an evaluated policy: prepare, check, three steps of GPG, both graders, model families.

    python -m tests.fixtures.make DIR
    python -m benchmarks.learning packs --data DIR --out runs/packs [--only PACK …]

The first command writes small data sets in the schemas of the originals, a folder per pack. The policies have random
weights, so the results show that every pack runs, and nothing about learning. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from vlrft.policy.families import vision_families

FAMILIES = ("qwen2_vl", "qwen2_5_vl")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A pack with options; `sources`: split -> folder or file of its raw data in the pack's folder."""

    pack: str
    sources: dict[str, str]
    options: dict[str, object]
    families: tuple[str, ...] = FAMILIES

    @property
    def name(self) -> str:
        return "_".join([self.pack, *(v for v in self.options.values() if isinstance(v, str))])


CASES = (
    Case(pack="geoqa", sources={"train": "hub", "test": "raw"}, options={}),
    Case(pack="sat", sources={"train": "raw", "test": "raw"}, options={}),
    Case(pack="finegrained", sources={"train": "raw", "test": "raw"}, options={"dataset": "pets37"}),
    Case(pack="lisa", sources={"train": "raw", "test": "raw"}, options={}),
    Case(pack="geometry3k", sources={"train": "raw", "test": "hub"}, options={}),
    Case(pack="counting", sources={"train": "hub", "test": "raw"}, options={}),
    Case(pack="textmath", sources={"train": "flat", "test": "flat"}, options={"train": "asdiv", "test": ["asdiv"]}, families=("qwen2",)),
    Case(pack="digits", sources={}, options={}),
)  # fmt: skip


def vlrft(*arguments: str) -> str:
    """Run the command and return its output. Raises SystemExit with the output when it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "vlrft", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"vlrft {' '.join(arguments)}\n{done.stdout}{done.stderr}")
    return done.stdout


def overrides(options: dict[str, object]) -> list[str]:
    return [f"options.{k}={json.dumps(v)}" for k, v in options.items()]


def prepare(case: Case, data: Path, out: Path) -> tuple[dict[str, object], str]:
    """The options for the next commands, and the numbers of rows and defects of each split."""
    if not case.sources:
        return case.options, "built in"
    ready = out / f"data_{case.name}"
    for split, place in case.sources.items():
        source = ["--from", str(data / case.pack / place), "--out", str(ready), "--split", split]
        vlrft("data", "prepare", case.pack, *source, "--overwrite", *overrides(case.options))
    splits = json.loads((ready / "manifest.json").read_text())["splits"]
    counts = [f"{s} {v['rows']} + {sum(v['defects'].values())} left out" for s, v in splits.items()]
    return {**case.options, "data": str(ready)}, "; ".join(counts)


def check(case: Case, options: dict[str, object]) -> str:
    """The number of gold answers that earn full marks."""
    splits = [part for split in case.sources for part in ("--split", split)]
    output = vlrft("check", case.pack, "--limit", "200", *splits, *overrides(options))
    lines = [line for line in output.splitlines() if "gold answers" in line]
    return "; ".join(line.split(" gold")[0] for line in lines)


def train(case: Case, options: dict[str, object], family: str, out: Path) -> Path:
    """Train a small policy of random weights for three steps; returns the run's folder."""
    config = {
        "task": {"name": case.pack, "options": options},
        "policy": {"build": {"family": family}, **bounds(family)},
        "rollout": {"group_size": 4, "max_tokens": 16},
        "algorithm": {"name": "gpg", "keep": "all"},
        "stages": [{"steps": 3, "prompts_per_step": 4, "update": {"lr": 1e-4}}],
        "eval": {"limit": 8},
    }
    path = out / f"{case.name}_{family}.yaml"
    path.write_text(yaml.safe_dump(config))
    vlrft("train", str(path), "--out", str(path.with_suffix("")), "--overwrite")
    return path.with_suffix("")


def bounds(family: str) -> dict[str, int]:
    """The policy's bound of pixels; a text-only family has none."""
    return {"max_pixels": 50176} if family in vision_families() else {}


def evaluate(case: Case, options: dict[str, object], family: str, run: Path) -> str:
    """The result of `vlrft eval` on the run's checkpoint by each grader."""
    out = run / "eval.json"
    model = str(run / "checkpoints" / "last")
    pixels = [f"policy.{key}={value}" for key, value in bounds(family).items()]
    vlrft("eval", "--model", model, "--task", case.pack, "--limit", "8", "--json", str(out),
          "--overwrite", "rollout.max_tokens=16", *pixels, *overrides(options))  # fmt: skip
    results = json.loads(out.read_text())
    graders = [g for g in ("strict", "official") if g in results]
    return ", ".join(f"{g} {results[g]['correct']}/{results[g]['n']}" for g in graders)


def make_row(case: Case, family: str, data: Path, out: Path) -> Sequence[str]:
    start_time = time.perf_counter()
    options, prepared = prepare(case, data, out)
    run = train(case, options, family, out)
    steps = (run / "metrics.jsonl").read_text().count("\n")
    results = evaluate(case, options, family, run)
    seconds = f"{time.perf_counter() - start_time:.0f}"
    return case.name, family, prepared, check(case, options), str(steps), results, seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="the folder with a folder per pack"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", metavar="PACK")
    args = parser.parse_args()
    cases = [case for case in CASES if args.only is None or case.pack in args.only]
    missing = [c.pack for c in cases if c.sources and not (args.data / c.pack).is_dir()]
    if missing:
        parser.error(
            f"--data {args.data}: no folder for {', '.join(missing)}; write the data sets with "
            f"`python -m tests.fixtures.make {args.data}`"
        )
    args.out.mkdir(parents=True, exist_ok=True)
    print(
        "| pack | family | rows prepared | gold answers with full marks | steps | eval | seconds |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for case in cases:
        for family in case.families:
            print(f"| {' | '.join(make_row(case, family, args.data, args.out))} |", flush=True)


if __name__ == "__main__":
    main()
