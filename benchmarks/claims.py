"""The papers' claims at small scale: GPG's table 15, GMPO's stability, GVPO's terms and stored rollouts, CW-GRPO's entropy.

    python benchmarks/claims.py --out runs/claims [--only gpg gmpo gvpo cw] [--seeds 0 1 2] [--jobs 1]

A small transformer sorts digits (claims_text.py); every loss is `vlrft.algorithms.policy_loss` as published. The arms of a
comparison share seeds, warm-up and (but for `D_steps`) the number of trained rollouts. An update is a pass over all of
a step's rollouts. The learning rate is the better of RATES by the mean of the accuracy curve on seed 100, which is used
for nothing else, of a comparison's first arm; all its arms share it. Adam, no gradient clipping.
Finished runs are not repeated. Writes rows.jsonl into --out; claims_report.py makes tables and the picture of it.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.claims_arms import COMPARISONS, Arm
from benchmarks.claims_text import (
    Policy,
    Problem,
    action_mask,
    measure,
    play,
    problem,
    score,
    warm,
)
from vlrft.algorithms import find_algorithm, policy_loss

RATES, SWEEP_SEED = (3e-4, 1e-3), 100
PROMPTS, GROUP, STORED = 12, 8, 8  # stored: the last rollouts of each prompt


@dataclass(frozen=True, kw_only=True)
class Answers:
    """A group: answers to one prompt; as a keep rule sees it (`rewards`)."""

    prompt: int
    answers: Tensor  # [G ANSWER]
    rewards: list[float]
    replayed: Tensor  # [G]


def sample(
    policy: Policy,
    pool: Problem,
    chosen: list[int],
    arm: Arm,
    store: dict[int, deque[Tensor]],
    generator: torch.Generator,
) -> list[Answers]:
    """A group a prompt; the stored share where the prompt has that many stored answers."""
    old = round(arm.stored * GROUP)
    index = torch.tensor(chosen).repeat_interleave(GROUP)
    found = play(policy, pool.prompts[index], generator).view(len(chosen), GROUP, -1)
    groups = []
    for i, p in enumerate(chosen):
        kept = list(store.setdefault(p, deque(maxlen=STORED)))
        take = old if len(kept) >= old else 0
        fresh = found[i, : GROUP - take]
        answers = torch.cat([fresh, torch.stack(kept[-take:])]) if take else fresh
        store[p].extend(fresh)
        rewards = score(answers, pool.answers[p].expand_as(answers)).tolist()
        replayed = torch.arange(GROUP) >= GROUP - take
        groups.append(Answers(prompt=p, answers=answers, rewards=rewards, replayed=replayed))
    return groups


def accuracy(policy: Policy, held_out: Problem) -> float:
    return float(score(play(policy, held_out.prompts, None), held_out.answers).mean())


def train(arm: Arm, rate: float, seed: int, start: Mapping[str, Tensor]) -> dict[str, Any]:
    """A run: the accuracy after each 3 steps' worth of rollouts, and figures of each step."""
    torch.manual_seed(seed)
    policy, initial = Policy(), Policy()
    policy.load_state_dict(start)
    initial.load_state_dict(start)
    pool = problem(arm.pool, torch.Generator().manual_seed(1000 + seed))
    held_out = problem(256, torch.Generator().manual_seed(2000 + seed))
    seen = pool if arm.pool < 100 else held_out  # few prompts: how well they are learnt
    generator = torch.Generator().manual_seed(3000 + seed)
    optimizer = torch.optim.Adam(policy.parameters(), lr=rate)
    keep = find_algorithm({"name": arm.method, **arm.overrides}).keep
    store: dict[int, deque[Tensor]] = {}
    order: list[int] = []
    evals = [(0, 0, accuracy(policy, seen))]
    steps: list[dict[str, float]] = []
    rows = 0

    def used() -> int:
        return len(steps) if arm.same_steps else rows // (PROMPTS * GROUP)

    while used() < arm.steps:
        before, groups, valid = used(), [], 0
        for _ in range(keep.max_attempts):
            if len(order) < PROMPTS:
                order = torch.randperm(arm.pool, generator=generator).tolist()
            chosen, order = order[:PROMPTS], order[PROMPTS:]
            groups += sample(policy, pool, chosen, arm, store, generator)
            rows += PROMPTS * GROUP
            valid = sum(max(g.rewards) > min(g.rewards) for g in groups)
            if keep.enough(valid, PROMPTS):
                break
        trained = cast(list[Answers], keep.choose(cast(Any, groups), PROMPTS))
        steps.append(update(policy, initial, optimizer, arm, pool, trained))
        if used() // 3 > before // 3:
            evals.append((len(steps), rows, accuracy(policy, seen)))
    return {"evals": evals, "steps": steps}


def update(
    policy: Policy,
    initial: Policy,
    optimizer: torch.optim.Optimizer,
    arm: Arm,
    pool: Problem,
    groups: list[Answers],
) -> dict[str, float]:
    """The updates of a step; their extremes of log ratio, and means of entropy and gradient norm."""
    index = torch.tensor([g.prompt for g in groups]).repeat_interleave(GROUP)
    prompts, answers = pool.prompts[index], torch.cat([g.answers for g in groups])
    mask = action_mask(answers)
    with torch.no_grad():
        old = measure(policy, prompts, answers)[0]
        reference = measure(initial, prompts, answers)[0]
    ratios, norms, entropies, below = [0.0], [], [], 0.0
    for _ in range(arm.updates):
        logprobs, entropy = measure(policy, prompts, answers)
        found = policy_loss(
            arm.method,
            logprobs=logprobs,
            rewards=[r for g in groups for r in g.rewards],
            group=torch.arange(len(groups)).repeat_interleave(GROUP),
            mask=mask,
            old_logprobs=old,
            ref_logprobs=reference,
            extras={"replayed": torch.cat([g.replayed for g in groups])},
            **arm.overrides,
        )
        optimizer.zero_grad()
        found.loss.backward()  # type: ignore[no-untyped-call]
        moved = (logprobs.detach() - old)[mask]
        ratios += [float(moved.min()), float(moved.max())]
        gradients = [p.grad.norm() for p in policy.parameters() if p.grad is not None]
        norms.append(float(torch.stack(gradients).norm()))
        entropies.append(float(entropy[mask].mean()))
        below += found.metrics.get("weight/below_half", 0.0) / arm.updates
        optimizer.step()
    return {
        "reward": sum(sum(g.rewards) for g in groups) / len(index),
        "valid": found.metrics["groups/valid_share"],
        "log_ratio_min": min(ratios),
        "log_ratio_max": max(ratios),
        "entropy": entropies[0],
        "norm": sum(norms) / len(norms),
        "norm_max": max(norms),
        "below_half": below,
    }


def run(task: tuple[str, Arm, float, int], out: Path) -> dict[str, Any]:
    """The row of a run; trains unless it is there."""
    comparison, arm, rate, seed = task
    file = out / f"{comparison}_{arm.name}_{rate:g}_{seed}.json".replace(" ", "_")
    if not file.exists():
        torch.set_num_threads(1)
        begun = time.perf_counter()
        found = train(arm, rate, seed, load_file(out / f"warm_{seed}.safetensors"))
        head = {"comparison": comparison, "arm": arm.name, "rate": rate, "seed": seed}
        found = head | {"seconds": round(time.perf_counter() - begun, 1)} | found
        versions = {"python": platform.python_version(), "torch": torch.__version__}
        found |= {"versions": versions, "machine": platform.machine()}
        short = json.loads(json.dumps(found), parse_float=lambda x: float(f"{float(x):.4g}"))
        file.write_text(json.dumps(short))
    row: dict[str, Any] = json.loads(file.read_text())
    return row


def area(row: Mapping[str, Any]) -> float:
    return float(sum(e[2] for e in row["evals"]) / len(row["evals"]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=list(COMPARISONS), default=list(COMPARISONS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for seed in (SWEEP_SEED, *args.seeds):
        begun = args.out / f"warm_{seed}.safetensors"
        if not begun.exists():
            save_file(warm(seed).state_dict(), begun)
    one, rows = partial(run, out=args.out), []
    with ProcessPoolExecutor(args.jobs) as pool:
        for name in args.only:
            arms = COMPARISONS[name]
            sweep = list(pool.map(one, [(name, arms[0], rate, SWEEP_SEED) for rate in RATES]))
            best = max(sweep, key=area)["rate"]
            tasks = [(name, a, best, s) for s in args.seeds for a in arms]
            rows += sweep + list(pool.map(one, tasks))
            print(name, best, flush=True)
            (args.out / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))


if __name__ == "__main__":
    main()
