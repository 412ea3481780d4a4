"""What several ranks compute and hold, against one process.

    python benchmarks/ranks.py [--ranks 2] [--only memory | steps]

Two steps of every method and ZeRO stage on a small Qwen2-VL, from ragged groups with and without images, one of which
teaches nothing; the largest relative difference ‖Δ‖ / ‖·‖ of any weight or AdamW moment to the single engine's. Then the
bytes of all tensors that a rank holds behind a step.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Literal

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.engine.test_deepspeed import BUDGET, UPDATE, Case, batches, played, run
from tests.fakes import CORPUS
from vlrft.algorithms import ALGORITHMS
from vlrft.config import BuildConfig, PolicyConfig
from vlrft.engine import build
from vlrft.policy.load import load_policy
from vlrft.ranks import Ranks
from vlrft.update import update

METHODS = ("gpg", "gmpo", "gvpo", "cw_grpo")
PLAYERS: Mapping[str, tuple[int, ...]] = {  # of the five groups; the fourth teaches nothing
    "mixed": (0, 0, 1, 1, 0),
    "images on one rank": (0, 1, 0, 1, 1),
    "no signal on one rank": (0, 0, 0, 1, 0),
}
Dtype = Literal["float32", "bfloat16"]
DTYPES: tuple[Dtype, ...] = ("float32", "bfloat16")
ENGINES: Mapping[str, dict[str, object]] = {
    "ZeRO-1": {"stage": 1},
    "ZeRO-2": {"stage": 2},
    "ZeRO-2, offload": {"stage": 2, "offload": "cpu"},
    "ZeRO-3": {"stage": 3},
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


def held() -> int:
    """Bytes of all tensors of this process, each storage once."""
    gc.collect()
    storages = {
        one.untyped_storage().data_ptr(): one.untyped_storage().nbytes()
        for one in gc.get_objects()
        if isinstance(one, torch.Tensor)
    }
    return sum(storages.values())


def memory(ranks: Ranks, file: Path, title: str, dtype: Dtype) -> list[str]:
    """A row of the table of bytes: behind a step, and while the weights are whole for sampling."""
    size = BuildConfig(hidden_size=256, layers=6, intermediate_size=1024, vocab_size=300)
    before = held()
    own = load_policy(PolicyConfig(build=size, dtype=dtype), corpus=CORPUS, seed=0)
    weights = sum(p.nbytes for p in own.model.parameters())
    kind: dict[str, object] = {"name": "single"}
    if title in ENGINES:
        kind = {"name": "deepspeed", **ENGINES[title]}
    if kind.get("stage") == 3:
        kind["config"] = str(file)
    made = build(UPDATE, own, 4, ranks, kind)
    update(made, batches(played(own), "gpg", ranks), ALGORITHMS["gpg"], BUDGET)
    behind = held() - before
    with made.whole():
        whole = held() - before
    cells = (f"{n / 2**20:.1f} MiB" for n in (weights, behind, whole))
    return [f"| {title} | {dtype} | {' | '.join(cells)} |"]


def work(rank: int, size: int, folder: Path, title: str, dtype: Dtype) -> None:
    """One rank. `title`: the engine whose memory is measured; none: the differences of all."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    os.environ.update({name: str(value) for name, value in places.items()})
    rendezvous = f"file://{folder / 'rendezvous'}"
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=size)
    ranks = Ranks.joined()
    file = folder / "deepspeed.json"
    file.write_text(json.dumps({"zero_optimization": {"stage3_param_persistence_threshold": 0}}))
    lines = memory(ranks, file, title, dtype) if title else gaps(ranks, file)
    if ranks.first:
        print("\n".join(lines), flush=True)
    dist.destroy_process_group()


def measured(ranks: int, title: str = "", dtype: Dtype = "float32") -> None:
    """Prints a table's rows, from processes of their own, which hold nothing of another engine's."""
    with tempfile.TemporaryDirectory() as folder:
        given = (ranks, Path(folder), title, dtype)
        spawn(work, args=given, nprocs=ranks)  # type: ignore[no-untyped-call]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--only", choices=["memory", "steps"])
    args = parser.parse_args()
    if args.only != "steps":
        print("| engine | dtype | weights | a rank holds | while sampling |")
        print("| --- | --- | ---: | ---: | ---: |", flush=True)
        for dtype, title in product(DTYPES, ("single", *ENGINES)):
            measured(args.ranks, title, dtype)
    if args.only != "memory":
        measured(args.ranks)


if __name__ == "__main__":
    main()
