"""Points of benchmarks.scaling: updates of a small Qwen2-VL, each measured and counted.

    python -m benchmarks.scaling.case '[{"group": 8, "answer": 64}, {"group": 16, "answer": 64}]'

Prints a line of JSON for each. Seconds are processor time on one thread, bytes the peak of resident memory above its level before
the update; Adam's moments exist already, and a small update has run before.
"""

from __future__ import annotations

import ctypes
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter

from vlrft.advantages.rows import estimate_rows
from vlrft.algorithms import ALGORITHMS
from vlrft.config import BuildConfig, PolicyConfig, UpdateConfig
from vlrft.engine.single import SingleEngine
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.schema import IMAGE, Group, Piece, Rollout, Sample, TrainingRow
from vlrft.testing.pass_costs import PassCosts, count_costs
from vlrft.testing.small_policies import ask, noise_image
from vlrft.trainer.batch import make_batches
from vlrft.trainer.update import update

ALGORITHM = ALGORITHMS["dr_grpo"]
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # see proc_pid_clear_refs(5)
SIDE = 112  # pixels of the image: 16 tokens
SEED = 0


@dataclass(frozen=True, kw_only=True)
class Case:
    """The sizes of an update: `group` answers of `answer` tokens to each of `prompts` questions of `words` words."""

    group: int = 8
    answer: int = 64
    words: int = 40
    prompts: int = 4
    budget: int = 16_384


WARM_UP = Case(group=2, answer=8, words=4, prompts=1)


def make_policy() -> Policy:
    """A Qwen2-VL of three layers, 128 wide, the sizes that a config builds by default."""
    config = PolicyConfig(build=BuildConfig(), dtype="float32")
    return load_policy(config, corpus=["one question"] * 4, seed=SEED)


def make_groups(policy: Policy, case: Case) -> list[Group]:
    chance = random.Random(SEED)
    groups: list[Group] = []
    for k in range(case.prompts):
        image = noise_image(SIDE, SIDE, k)
        question = " ".join(["one"] * case.words)
        sample = Sample(id=str(k), messages=ask(IMAGE, question), images=(image,))
        prompt = policy.chat.render(sample.messages, sample.images)
        rollouts: list[Rollout] = []
        for g in range(case.group):
            piece = Piece(ids=tuple(chance.choices(range(256), k=case.answer)), text="")
            row = TrainingRow(prompt=prompt, pieces=(piece,))
            rollouts.append(Rollout(sample=sample, rows=(row,), reward=float(g % 2)))
        groups.append(Group(sample=sample, rollouts=tuple(rollouts)))
    return groups


def run_update(engine: SingleEngine, groups: Sequence[Group], case: Case) -> None:
    advantages = estimate_rows(groups, ALGORITHM.estimator, max_tokens=case.answer)
    batches = make_batches(groups, advantages, ALGORITHM, temperature=1.0, max_tokens=case.answer)
    _, skipped = update(engine, batches, ALGORITHM, case.budget)
    assert not skipped, skipped


def kilobytes(name: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1])


def measure(engine: SingleEngine, case: Case) -> dict[str, Any]:
    groups = make_groups(engine.policy, case)
    ctypes.CDLL(None).malloc_trim(0)  # freed memory that is still held would count as in use
    CLEAR.write_text(RESET_PEAK)
    before, start = kilobytes("VmRSS"), time.process_time()
    run_update(engine, groups, case)
    seconds, peak = time.process_time() - start, kilobytes("VmHWM")
    costs: PassCosts
    with count_costs(engine.policy.model) as costs:
        run_update(engine, groups, case)
    return {
        "prompt": len(groups[0].rollouts[0].rows[0].prompt.ids),
        "seconds": round(seconds, 4),
        "bytes": 1024 * (peak - before),
        "flops": costs.flops,
        "attention_flops": costs.attention_flops,
        "saved_bytes": costs.saved_bytes,
    }


def main() -> None:
    torch.set_num_threads(1)
    cases = TypeAdapter(list[Case]).validate_json(sys.argv[1])
    policy = make_policy()
    engine = SingleEngine(UpdateConfig(lr=1e-6), policy, 10**6)
    run_update(engine, make_groups(policy, WARM_UP), WARM_UP)
    for case in cases:
        print(json.dumps({"case": asdict(case)} | measure(engine, case)), flush=True)


if __name__ == "__main__":
    main()
