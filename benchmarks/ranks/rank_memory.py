"""Memory of a rank: the estimate of `vlrft doctor --ranks`, compared with the bytes of all its tensors.

    python -m benchmarks.ranks.rank_memory [--ranks 2 4] [--only ENGINE …]

A small Qwen2-VL takes two steps under each engine, with two micro-batches per rank. Ranks are processes, and every row
starts new ones, so nothing of another engine is left. Measured are the storages that torch's operators allocate on the
first rank: after a step, and at the peak of sampling, of the second step and of gathering the weights for saving. On a
CPU, device memory is host memory, so offloaded tensors are included. Exit code 1 when an estimate is off by more than
a fifth.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from benchmarks.memory.case import Case, make_groups, make_prompts
from benchmarks.ranks.tensor_bytes import Tensors
from vlrft.advantages.rows import estimate_rows
from vlrft.algorithms import ALGORITHMS
from vlrft.config import PolicyConfig, UpdateConfig
from vlrft.distributed.ranks import Ranks
from vlrft.engine import TrainEngine, build_engine, find_engine, planned_choices, rank_memory
from vlrft.memory.phases import plan
from vlrft.memory.plan import MemoryPhase
from vlrft.memory.rank_memory import merge_host_memory
from vlrft.memory.sampling_phase import shared_prefix_memory
from vlrft.memory.shapes import PromptSize
from vlrft.memory.workload import RolloutWork, StepWork
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import Group
from vlrft.testing.engine_steps import sharding_engine
from vlrft.testing.process_ranks import run_ranks
from vlrft.testing.small_policies import CORPUS
from vlrft.trainer.batch import make_batches
from vlrft.trainer.memory_plan.model_shapes import read_model_shape
from vlrft.trainer.update import update

MIB = 2**20
ALLOWED = 0.2
SIZE = {"hidden_size": 256, "layers": 6, "intermediate_size": 1024, "vocab_size": 300}
UPDATE = UpdateConfig()
PROMPTS = 2  # per rank, each one micro-batch
COLUMNS = ("after a step", "rollout", "update", "save")


@dataclass(frozen=True, kw_only=True)
class Row:
    """An engine as in a config, a dtype and a number of ranks."""

    engine: dict[str, Any]
    dtype: str
    ranks: int

    @property
    def title(self) -> str:
        settings = [str(value) for key, value in self.engine.items() if key != "name"]
        return " ".join([self.engine["name"], *settings])


def measure(row: Row, case: Case, ranks: Ranks, folder: Path) -> dict[str, int]:
    """Bytes of this rank's tensors, by column."""
    with Tensors() as tensors:
        policy = load_policy(policy_config(case), corpus=CORPUS, seed=0)
        engine = build_engine(UPDATE, policy, 4, ranks, make_engine_config(row, folder))
        groups: list[Group] = make_groups(case, make_prompts(case, policy))
        groups = [replace(group, rank=k % ranks.size) for k, group in enumerate(groups)]
        algorithm = ALGORITHMS["gpg"]
        sizes: dict[str, int] = {}
        for _ in range(2):
            tensors.peak = tensors.current
            advantages = estimate_rows(groups, algorithm.estimator, max_tokens=case.tokens)
            batches = make_batches(
                groups, advantages, algorithm, temperature=1.0, max_tokens=case.tokens, ranks=ranks
            )
            update(engine, batches, algorithm, case.budget)
            sizes["update"] = tensors.peak
            del batches
        gc.collect()
        sizes["after a step"] = tensors.current
        tensors.peak = tensors.current
        sample(policy, case, engine, ranks)
        sizes["rollout"] = tensors.peak
        tensors.peak = tensors.current
        _state = engine.state()
        with engine.unsharded_on_first_rank():
            sizes["save"] = tensors.peak
    return sizes


def sample(policy: Policy, case: Case, engine: TrainEngine, ranks: Ranks) -> None:
    """Sample from this rank's prompts; every answer has the maximum length."""
    policy.chat.end_ids = frozenset()
    requests = [
        Request(id=str(k), prompt=prompt, seeds=tuple(range(case.group)))
        for k, prompt in enumerate(make_prompts(case, policy)[ranks.rank :: ranks.size])
    ]
    with engine.ready_to_sample():
        HfEngine(policy).generate(requests, Sampling(max_tokens=case.tokens))


def estimate(row: Row, case: Case, folder: Path) -> dict[str, int]:
    """The same sizes as the planner computes them."""
    config = policy_config(case)
    model = read_model_shape(load_policy(config, corpus=CORPUS, seed=0).model, config, "cpu")
    prompt = PromptSize(tokens=case.text + case.image**2 // 4, patches=case.image**2)
    work = StepWork(
        prompts=(prompt,) * PROMPTS,
        group=case.group,
        tokens=case.tokens,
        micro_tokens=case.budget,
        rollout=RolloutWork(prompts=(prompt,) * PROMPTS, answers=case.group, tokens=case.tokens),
        distinct_images=case.prompts,
    )
    share, _ = rank_memory(find_engine(make_engine_config(row, folder)), UPDATE, model, row.ranks)
    phases: Mapping[str, MemoryPhase] = {
        phase.name: phase for phase in plan(model, work, share, shared_prefix_memory).phases
    }
    held = sum(merge_host_memory(share).held.values())
    return {"after a step": held} | {name: phases[name].total for name in COLUMNS[1:]}


def policy_config(case: Case) -> PolicyConfig:
    return TypeAdapter(PolicyConfig).validate_python(dict(case.policy))


def make_engine_config(row: Row, folder: Path) -> dict[str, Any]:
    """The row's engine; DeepSpeed shards every parameter in stage 3."""
    return sharding_engine(row.engine, folder)


def compare(row: Row, ranks: Ranks, folder: Path) -> dict[str, dict[str, int]]:
    """Measured and planned bytes of one rank; every rank calls it."""
    warnings.filterwarnings("ignore")
    case = Case(
        name=row.title,
        policy={"build": SIZE, "dtype": row.dtype},
        prompts=PROMPTS * row.ranks,
        text=16,
        image=8,
        group=4,
        tokens=8,
        budget=64,
    )
    return {"measured": measure(row, case, ranks, folder), "planned": estimate(row, case, folder)}


def table_row(row: Row, sizes: dict[str, dict[str, int]]) -> str:
    cells = [f"{sizes['planned'][c] / MIB:.1f} / {sizes['measured'][c] / MIB:.1f}" for c in COLUMNS]
    return f"| {row.ranks} | {row.title} | {row.dtype} | {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--only", nargs="+", metavar="ENGINE", help="such as 'deepspeed 2 cpu'")
    args = parser.parse_args()
    print("MiB, planned / measured")
    print(f"| ranks | engine | dtype | {' | '.join(COLUMNS)} |")
    print("| ---: | --- | --- |" + " ---: |" * len(COLUMNS), flush=True)
    ratios: list[float] = []
    for size, dtype, engine in product(args.ranks, ("float32", "bfloat16"), planned_choices()):
        row = Row(engine=engine, dtype=dtype, ranks=size)
        if args.only and row.title not in args.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            sizes = run_ranks(partial(compare, row), Path(folder), size)[0]
        ratios += [sizes["planned"][c] / sizes["measured"][c] for c in COLUMNS]
        print(table_row(row, sizes), flush=True)
    print(f"planned / measured: {min(ratios):.2f} to {max(ratios):.2f}")
    return 1 if any(abs(ratio - 1) > ALLOWED for ratio in ratios) else 0


if __name__ == "__main__":
    sys.exit(main())
