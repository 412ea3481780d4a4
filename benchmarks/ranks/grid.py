"""Weights and optimiser moments after steps on several ranks, compared with one process.

    python -m benchmarks.ranks [--ranks 2] [--only ENGINE …] [--dtype float64]

Two steps of every algorithm under FSDP2 and every ZeRO stage on a small Qwen2-VL, from ragged groups with and without images, one of
which has equal rewards, and between them a step from that group alone. A cell is the largest relative difference
‖Δ‖ / ‖·‖ of any weight or AdamW moment to the engine `single` on one process; `single` on several ranks shows the order of sums
alone. DeepSpeed does not train float64.

Programs of this package: rank_memory, kill_rank, scaling_table, answers, curves (`python -m benchmarks.ranks.NAME`).
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from vlrft.distributed.ranks import Ranks
from vlrft.testing.engine_steps import EngineCase, compare_with_single, sharding_engine
from vlrft.testing.process_ranks import run_ranks

ALGORITHMS = ("gpg", "gmpo", "gvpo", "cw_grpo")
OWNERS: Mapping[
    str, tuple[int, ...]
] = {  # rank of each of the five groups; the fourth has equal rewards
    "mixed": (0, 0, 1, 1, 0),
    "images on one rank": (0, 1, 0, 1, 1),
    "no signal on one rank": (0, 0, 0, 1, 0),
}
ENGINES: Mapping[str, dict[str, object]] = {
    "single": {"name": "single"},
    "FSDP2": {"name": "fsdp"},
    "FSDP2, no reshard": {"name": "fsdp", "reshard_after_forward": False},
    "FSDP2, offload": {"name": "fsdp", "offload": "cpu"},
    "ZeRO-1": {"stage": 1},
    "ZeRO-2": {"stage": 2},
    "ZeRO-2, offload": {"stage": 2, "offload": "cpu"},
    "ZeRO-3": {"stage": 3},
    "ZeRO-3, offload": {"stage": 3, "offload": "cpu"},
}


def compare(titles: Sequence[str], dtype: str, ranks: Ranks, folder: Path) -> list[str]:
    """The table of differences, a row per engine of `titles` and algorithm; every rank calls it."""
    warnings.filterwarnings("ignore")
    lines = [
        f"| engine | algorithm | {' | '.join(OWNERS)} |",
        "| --- | --- |" + " ---: |" * len(OWNERS),
    ]
    for title in titles:
        engine = sharding_engine(ENGINES[title], folder)
        for algorithm in ALGORITHMS:
            cells: list[str] = []
            for owners in OWNERS.values():
                if ranks.size != 2:
                    owners = tuple((2 * p + k % 2) % ranks.size for k, p in enumerate(owners))
                policy = {"dtype": dtype}
                case = EngineCase(engine=engine, algorithm=algorithm, owners=owners, policy=policy)
                gaps = compare_with_single(case, ranks)["gaps"]
                cells.append(f"{max(gaps.values(), default=0.0):.1e}")
            lines.append(f"| {title} | {algorithm} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines = run_ranks(partial(compare, args.only, args.dtype), Path(folder), args.ranks)[0]
    print("\n".join(lines))
