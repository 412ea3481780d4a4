"""What several ranks compute, against one process.

    python -m benchmarks.ranks [--ranks 2]

Two steps of every method and ZeRO stage on a small Qwen2-VL, from ragged groups with and without images, one of which
teaches nothing, and between them a step from that one alone; the largest relative difference ‖Δ‖ / ‖·‖ of any weight or AdamW moment to the single engine's.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

from tests.engine.deepspeed.test_engine import Case, run
from tests.fakes.process_ranks import run_ranks
from vlrft.distributed.ranks import Ranks

METHODS = ("gpg", "gmpo", "gvpo", "cw_grpo")
PLAYERS: Mapping[str, tuple[int, ...]] = {  # of the five groups; the fourth teaches nothing
    "mixed": (0, 0, 1, 1, 0),
    "images on one rank": (0, 1, 0, 1, 1),
    "no signal on one rank": (0, 0, 0, 1, 0),
}
ENGINES: Mapping[str, dict[str, object]] = {
    "ZeRO-1": {"stage": 1},
    "ZeRO-2": {"stage": 2},
    "ZeRO-2, offload": {"stage": 2, "offload": "cpu"},
    "ZeRO-3": {"stage": 3},
    "ZeRO-3, offload": {"stage": 3, "offload": "cpu"},
}


def gaps(ranks: Ranks, file: Path) -> list[str]:
    """The table of differences, a row an engine and method."""
    lines = [
        f"| engine | method | {' | '.join(PLAYERS)} |",
        "| --- | --- |" + " ---: |" * len(PLAYERS),
    ]
    for title, engine in ENGINES.items():
        for method in METHODS:
            cells: list[str] = []
            for players in PLAYERS.values():
                spread = tuple((2 * p + k % 2) % ranks.size for k, p in enumerate(players))
                own = players if ranks.size == 2 else spread
                found = run(Case(engine, method, own), ranks, file)["gaps"]
                cells.append(f"{max(found.values(), default=0.0):.1e}")
            lines.append(f"| {title} | {method} | {' | '.join(cells)} |")
    return lines


def work(ranks: Ranks, folder: Path) -> list[str]:
    """One rank's."""
    warnings.filterwarnings("ignore")
    file = folder / "deepspeed.json"
    file.write_text(json.dumps({"zero_optimization": {"stage3_param_persistence_threshold": 0}}))
    return gaps(ranks, file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines = run_ranks(work, Path(folder), args.ranks)[0]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
