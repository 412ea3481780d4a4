"""What a rank holds: the bytes that `vlrft doctor --ranks` plans beside those of all its tensors.

    python -m benchmarks.ranks.rank_memory [--ranks 2 4] [--only ENGINE …]

A small Qwen2-VL takes two steps under each engine, two micro-batches a rank; every rank is a process of its own, every
row has new ones, which hold nothing of another engine's. Measured are the storages that torch's operators make, of the
first rank: behind a step, and at the fullest moment of sampling, of the second step and of gathering what is saved. On a
CPU the machine's memory is the device's, so what is offloaded is among them. Exit code 1 when a figure is off by more
than a fifth.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import warnings
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.memory.case import Case, groups_of, prompts_of
from vlrft.advantages.rows import estimate_rows
from vlrft.algorithms import ALGORITHMS
from vlrft.cli.doctor.model_shapes import read_model_shape
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
from vlrft.testing.process_ranks import run_ranks
from vlrft.testing.small_policies import CORPUS
from vlrft.trainer.batch import make_batches
from vlrft.trainer.update import update

MIB = 2**20
ALLOWED = 0.2
SIZE = {"hidden_size": 256, "layers": 6, "intermediate_size": 1024, "vocab_size": 300}
UPDATE = UpdateConfig()
EACH = 2  # prompts a rank, each a micro-batch
COLUMNS = ("behind a step", "rollout", "update", "save")


@dataclass(frozen=True, kw_only=True)
class Row:
    """An engine as a config has it, a dtype and a number of ranks."""

    engine: dict[str, Any]
    dtype: str
    ranks: int

    @property
    def title(self) -> str:
        settings = [str(value) for key, value in self.engine.items() if key != "name"]
        return " ".join([self.engine["name"], *settings])


class Tensors(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Bytes of the storages that operators have made within it, and the most there were."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.most = 0
        self.known: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        for one in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(one, Tensor) and not one.is_meta:
                self._see(one.untyped_storage())
        return found

    def _see(self, storage: Any) -> None:
        key = id(storage)
        if key in self.known and self.known[key]() is storage:
            return
        size = storage.nbytes()
        self.known[key] = weakref.ref(storage)
        weakref.finalize(storage, self._gone, key, size)
        self.now += size
        self.most = max(self.most, self.now)

    def _gone(self, key: int, size: int) -> None:
        del self.known[key]
        self.now -= size


def measured(row: Row, case: Case, ranks: Ranks, file: Path) -> dict[str, int]:
    """Bytes of this rank."""
    with Tensors() as tensors:
        policy = load_policy(policy_config(case), corpus=CORPUS, seed=0)
        engine = build_engine(UPDATE, policy, 4, ranks, engine_config(row, file))
        groups: list[Group] = groups_of(case, prompts_of(case, policy))
        groups = [replace(group, rank=k % ranks.size) for k, group in enumerate(groups)]
        algorithm = ALGORITHMS["gpg"]
        found: dict[str, int] = {}
        for _ in range(2):
            tensors.most = tensors.now
            taught = estimate_rows(groups, algorithm.estimator, max_tokens=case.tokens)
            batches = make_batches(
                groups, taught, algorithm, temperature=1.0, max_tokens=case.tokens, ranks=ranks
            )
            update(engine, batches, algorithm, case.budget)
            found["update"] = tensors.most
            del batches
        gc.collect()
        found["behind a step"] = tensors.now
        tensors.most = tensors.now
        sample(policy, case, engine, ranks)
        found["rollout"] = tensors.most
        tensors.most = tensors.now
        _state = engine.state()
        with engine.unsharded_on_first_rank():
            found["save"] = tensors.most
    return found


def sample(policy: Policy, case: Case, engine: TrainEngine, ranks: Ranks) -> None:
    """This rank's prompts, every answer as long as may be."""
    policy.chat.end_ids = frozenset()
    requests = [
        Request(id=str(k), prompt=prompt, seeds=tuple(range(case.group)))
        for k, prompt in enumerate(prompts_of(case, policy)[ranks.rank :: ranks.size])
    ]
    with engine.ready_to_sample():
        HfEngine(policy).generate(requests, Sampling(max_tokens=case.tokens))


def planned(row: Row, case: Case, file: Path) -> dict[str, int]:
    """The same by formula."""
    config = policy_config(case)
    model = read_model_shape(load_policy(config, corpus=CORPUS, seed=0).model, config, "cpu")
    prompt = PromptSize(tokens=case.text + case.image**2 // 4, patches=case.image**2)
    work = StepWork(
        prompts=(prompt,) * EACH,
        group=case.group,
        tokens=case.tokens,
        micro_tokens=case.budget,
        rollout=RolloutWork(prompts=(prompt,) * EACH, answers=case.group, tokens=case.tokens),
        distinct_images=case.prompts,
    )
    share, _ = rank_memory(find_engine(engine_config(row, file)), UPDATE, model, row.ranks)
    phases: Mapping[str, MemoryPhase] = {
        phase.name: phase for phase in plan(model, work, share, shared_prefix_memory).phases
    }
    behind = sum(merge_host_memory(share).held.values())
    return {"behind a step": behind} | {name: phases[name].total for name in COLUMNS[1:]}


def policy_config(case: Case) -> PolicyConfig:
    return TypeAdapter(PolicyConfig).validate_python(dict(case.policy))


def engine_config(row: Row, file: Path) -> dict[str, Any]:
    """Parameters that ZeRO-3 would leave whole are nearly all of a model so small."""
    return row.engine | ({"config": str(file)} if row.engine.get("stage") == 3 else {})


def work(row: Row, ranks: Ranks, folder: Path) -> dict[str, dict[str, int]]:
    """One rank's."""
    warnings.filterwarnings("ignore")
    file = folder / "deepspeed.json"
    file.write_text(json.dumps({"zero_optimization": {"stage3_param_persistence_threshold": 0}}))
    case = Case(
        name=row.title,
        policy={"build": SIZE, "dtype": row.dtype},
        prompts=EACH * row.ranks,
        text=16,
        image=8,
        group=4,
        tokens=8,
        budget=64,
    )
    return {"measured": measured(row, case, ranks, file), "planned": planned(row, case, file)}


def line(row: Row, found: dict[str, dict[str, int]]) -> str:
    cells = [f"{found['planned'][c] / MIB:.1f} / {found['measured'][c] / MIB:.1f}" for c in COLUMNS]
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
            found = run_ranks(partial(work, row), Path(folder), size)[0]
        ratios += [found["planned"][c] / found["measured"][c] for c in COLUMNS]
        print(line(row, found), flush=True)
    print(f"planned / measured: {min(ratios):.2f} to {max(ratios):.2f}")
    return 1 if any(abs(ratio - 1) > ALLOWED for ratio in ratios) else 0


if __name__ == "__main__":
    sys.exit(main())
