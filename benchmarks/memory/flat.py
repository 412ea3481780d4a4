"""Growth of a run's host memory (RSS), sampled at each of a thousand steps of the quickstart.

    python -m benchmarks.memory.flat --out runs/flat_memory [--steps 1000] [--prompts 16]

Writes benchmarks/results/flat_memory_DATE.jsonl (a line per step) and flat_memory.svg, and prints the slope after the first
fifth and over the second half of the steps, with 95 % intervals (bootstrap over blocks of residuals). Caches first fill up
to their limits; that of the image cache is 256 MiB.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from vlrft.config.load import load_config
from vlrft.reporting.run_log import RunLog
from vlrft.trainer.train import train

RESULTS = Path(__file__).parents[1] / "results"
FILLING = 0.2  # share of the steps in which caches fill
BLOCK, RESAMPLES = 50, 2000
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 820, 300, 60, 40, 30


def resident_mib() -> float:
    """Resident MiB of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def run(steps: int, prompts: int, out: Path, overrides: Sequence[str]) -> list[dict[str, Any]]:
    """Train; returns a row per step with resident memory and seconds since the start."""
    warm_up = (
        120 if steps >= 600 else steps // 5
    )  # as in the config; after less, no group has signal
    config = load_config(
        "configs/quickstart.yaml",
        (
            f"stages.0.steps={warm_up}",
            f"stages.1.steps={steps - warm_up}",
            f"stages.1.prompts_per_step={prompts}",
            "eval.limit=120",
            *overrides,
        ),
    )
    rows: list[dict[str, Any]] = []
    start, original = time.perf_counter(), RunLog.step

    def sample_memory(self: RunLog, stage: str, step: int, *rest: Any) -> None:
        original(self, stage, step, *rest)
        seconds = time.perf_counter() - start
        rows.append({"step": step, "stage": stage, "rss_mib": round(resident_mib(), 3), "s": round(seconds, 2)})  # fmt: skip

    with patch.object(RunLog, "step", sample_memory):
        train(config, out=out, overwrite=True)
    return rows


def slope(rss: Sequence[float]) -> tuple[float, float, float]:
    """Slope in MiB per 1,000 steps by least squares, and its 95 % interval."""
    values = np.array(rss)
    steps = np.arange(len(values)) / 1000
    trend, level = np.polyfit(steps, values, 1)
    residuals = values - trend * steps - level
    draw = np.random.default_rng(0)
    starts = np.arange(len(values) - BLOCK + 1)
    blocks = -(-len(values) // BLOCK)
    slopes = []
    for _ in range(RESAMPLES):
        picked = [residuals[k : k + BLOCK] for k in draw.choice(starts, blocks)]
        slopes.append(
            np.polyfit(steps, trend * steps + np.concatenate(picked)[: len(values)], 1)[0]
        )
    low, high = np.percentile(slopes, [2.5, 97.5])
    return float(trend), float(low), float(high)


def describe_slopes(rss: Sequence[float]) -> str:
    parts = []
    for name, share in (("shaded part", FILLING), ("second half", 0.5)):
        trend, low, high = slope(rss[int(share * len(rss)) :])
        parts.append(f"{name} {trend:+.2f} [{low:+.2f}, {high:+.2f}]")
    return f"RSS in MiB by step; MiB per 1,000 steps: {', '.join(parts)}"


def draw_curve(rss: Sequence[float], title: str) -> str:
    """The curve as SVG; the part whose slope is measured is shaded."""
    top = 100 * (int(max(rss) / 100) + 1)

    def at(step: float, value: float) -> str:
        x = LEFT + (WIDTH - LEFT - 20) * step / len(rss)
        return f"{x:.1f},{HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top:.1f}"

    parts = [f'<text x="{LEFT}" y="18" font-size="13">{title}</text>']
    left, upper = at(FILLING * len(rss), top).split(",")
    wide = float(at(len(rss), 0).split(",")[0]) - float(left)
    parts.append(f'<rect x="{left}" y="{upper}" width="{wide:.1f}" height="{HEIGHT - BOTTOM - TOP}" fill="#f3f5f8"/>')  # fmt: skip
    for value in range(0, top + 1, 100 if top <= 800 else 200):
        x, y = at(0, value).split(",")
        parts.append(f'<path d="M{x} {y}H{WIDTH - 20}" stroke="#e2e2e2"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{float(y) + 4}" text-anchor="end">{value}</text>')
    for k in range(0, len(rss) + 1, max(len(rss) // 5, 1)):
        x = at(k, 0).split(",")[0]
        parts.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{k}</text>')
    points = " ".join(at(k + 1, v) for k, v in enumerate(rss))
    parts.append(f'<polyline points="{points}" fill="none" stroke="#4c72b0" stroke-width="1.5"/>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">step</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11" fill="#222">'
    back = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, back, *parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    args = parser.parse_args()
    rows = run(args.steps, args.prompts, args.out, args.overrides)
    rss = [row["rss_mib"] for row in rows]
    title = describe_slopes(rss)
    date = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    versions = {name: version(name) for name in ("vlrft", "torch", "transformers")}
    head = {"steps": args.steps, "prompts": args.prompts, "overrides": args.overrides, "versions": versions, "load": os.getloadavg()[0]}  # fmt: skip
    lines = [json.dumps(row) for row in (head, *rows)]
    (args.results / f"flat_memory_{date}.jsonl").write_text("\n".join(lines) + "\n")
    (args.results / "flat_memory.svg").write_text(draw_curve(rss, title))
    print(f"{len(rss)} steps in {rows[-1]['s']:.0f} s, load {os.getloadavg()[0]:.1f}: first {rss[0]:.0f} MiB, last {rss[-1]:.0f}")  # fmt: skip
    print(title)


if __name__ == "__main__":
    main()
