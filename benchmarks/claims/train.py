"""One training run: sample groups, update, evaluate, until the arm's steps are used up.

A step samples PROMPTS groups of GROUP answers. They are split into `slices` of whole groups, one update each, and this is
repeated `passes` times: with 8 slices the last eighth is trained on by a policy that was updated 7 times since it sampled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, cast

import torch
from torch import Tensor

from benchmarks.claims.arms import Arm
from benchmarks.claims.text_task import (
    Policy,
    Problem,
    action_mask,
    play,
    problem,
    score,
    token_logprobs,
)
from vlrft.algorithms import find_algorithm, policy_loss

POOL, PROMPTS, GROUP, STORED = (
    1024,
    16,
    8,
    16,
)  # pool: prompts to train on; stored: the last rollouts of each prompt
HELD_OUT, EVERY = 512, 10  # prompts; batches of sampled rollouts between evaluations
BLOCK = 20  # steps that one value in a row summarises


@dataclass(frozen=True, kw_only=True)
class Answers:
    """A group: answers to one prompt. `rewards` is the attribute that group filters read."""

    prompt: int
    answers: Tensor  # [G ANSWER]
    rewards: list[float]
    fresh: int  # number of answers sampled in this step; the others, at the end, are stored ones


class Noise:
    """Flips rewards at random."""

    def __init__(self, flips: float, generator: torch.Generator) -> None:
        self.flips, self.generator = flips, generator

    def flip(self, rewards: Tensor) -> Tensor:
        if not self.flips:
            return rewards
        wrong = torch.rand(rewards.shape, generator=self.generator) < self.flips
        return torch.where(wrong, 1 - rewards, rewards)


class Prompts:
    """The prompts of a run, reshuffled in every epoch, and the last answers to each."""

    def __init__(self, pool: Problem, generator: torch.Generator, noise: Noise) -> None:
        self.pool, self.generator, self.noise = pool, generator, noise
        self.order: list[int] = []
        self.stored: dict[int, deque[Tensor]] = {}

    def groups(self, policy: Policy, share: float) -> list[Answers]:
        """One group per prompt; a `share` of its answers are stored ones where the prompt has that many."""
        if len(self.order) < PROMPTS:
            self.order = torch.randperm(len(self.pool.prompts), generator=self.generator).tolist()
        chosen, self.order = self.order[:PROMPTS], self.order[PROMPTS:]
        fresh = play(policy, self.pool.prompts[chosen], GROUP, self.generator)
        groups, old = [], round(share * GROUP)
        for p, answers in zip(chosen, fresh.view(PROMPTS, GROUP, -1), strict=True):
            kept = self.stored.setdefault(p, deque(maxlen=STORED))
            take = old if len(kept) >= old else 0
            new = answers[: GROUP - take]
            if take:
                pick = torch.randperm(len(kept), generator=self.generator)[:take].tolist()
                answers = torch.cat([new, torch.stack([kept[i] for i in pick])])
            kept.extend(new)
            rewards = self.noise.flip(score(answers, self.pool.answers[p].expand_as(answers)))
            groups.append(
                Answers(prompt=p, answers=answers, rewards=rewards.tolist(), fresh=len(new))
            )
        return groups


def train(
    arm: Arm, rate: float, seed: int, start: Mapping[str, Tensor], *, flips: float = 0.0
) -> dict[str, Any]:
    """Train one arm; return greedy accuracy on held-out prompts every EVERY batches, and the steps' metrics in blocks. `flips`:
    the probability with which a training reward is the other of 0 and 1."""
    torch.manual_seed(seed)
    policy, initial = Policy(), Policy()
    policy.load_state_dict(start)
    initial.load_state_dict(start)
    held_out = problem(HELD_OUT, torch.Generator().manual_seed(2000 + seed))
    generator = torch.Generator().manual_seed(3000 + seed)
    pool = problem(POOL, torch.Generator().manual_seed(1000 + seed))
    prompts = Prompts(pool, generator, Noise(flips, torch.Generator().manual_seed(4000 + seed)))
    optimizer = torch.optim.Adam(policy.parameters(), lr=rate)
    keep = find_algorithm({"name": arm.algorithm, **arm.overrides}).keep
    steps: list[dict[str, float]] = []
    drawn, fresh = 0, 0  # attempts of PROMPTS groups; sampled rollouts, without stored ones

    def evaluate() -> tuple[int, int, float]:
        answers = play(policy, held_out.prompts, 1, None)
        return len(steps), fresh, float(score(answers, held_out.answers).mean())

    def count_attempts() -> int:
        return len(steps) if arm.same_steps else drawn

    evals = [evaluate()]
    while count_attempts() < arm.steps:
        before, groups, valid = count_attempts(), list[Answers](), 0
        for _ in range(keep.max_attempts):
            attempt = prompts.groups(policy, arm.stored)
            groups += attempt
            drawn += 1
            fresh += sum(g.fresh for g in attempt)
            valid = sum(max(g.rewards) > min(g.rewards) for g in groups)
            if keep.enough(valid, PROMPTS) or (not arm.same_steps and drawn >= arm.steps):
                break
        chosen = cast(list[Answers], keep.choose(cast(Any, groups), PROMPTS))
        metrics = update(policy, initial, optimizer, arm, prompts.pool, chosen)
        sampled = [r for g in groups for r in g.rewards[: g.fresh]]
        steps.append(metrics | {"reward": fmean(sampled), "valid": valid / len(groups)})
        if count_attempts() // EVERY > before // EVERY:
            evals.append(evaluate())
    names = ("step", "rollouts", "accuracy")
    columns = {name: [e[i] for e in evals] for i, name in enumerate(names)}
    return {"evals": columns, "blocks": blocks(steps)}


def blocks(steps: list[dict[str, float]]) -> dict[str, list[float]]:
    """Each metric's mean over every BLOCK steps; of one that ends in `_max`, the greatest value."""
    parts = [steps[i : i + BLOCK] for i in range(0, len(steps), BLOCK)]
    return {
        name: [(max if name.endswith("_max") else fmean)([s[name] for s in part]) for part in parts]
        for name in steps[0]
    }


def update(
    policy: Policy,
    initial: Policy,
    optimizer: torch.optim.Optimizer,
    arm: Arm,
    pool: Problem,
    groups: list[Answers],
) -> dict[str, float]:
    """Make the updates of a step; return the extremes of the log ratio over them, and the means of the other metrics."""
    index = torch.tensor([g.prompt for g in groups]).repeat_interleave(GROUP)
    prompts, answers = pool.prompts[index], torch.cat([g.answers for g in groups])
    rewards = torch.tensor([r for g in groups for r in g.rewards])
    replayed = torch.cat([torch.arange(GROUP) >= g.fresh for g in groups])
    mask = action_mask(answers)
    with torch.no_grad():
        old, entropy = token_logprobs(policy, prompts, answers)
        reference = token_logprobs(initial, prompts, answers)[0] if arm.reference else None
    low, high, norms, below = 0.0, 0.0, [], []
    for part in list(torch.arange(len(index)).chunk(arm.slices)) * arm.passes:
        logprobs, _ = token_logprobs(policy, prompts[part], answers[part])
        result = policy_loss(
            arm.algorithm,
            logprobs=logprobs,
            rewards=rewards[part],
            group=part // GROUP,
            mask=mask[part],
            old_logprobs=old[part],
            ref_logprobs=None if reference is None else reference[part],
            extras={"replayed": replayed[part]},
            **arm.overrides,
        )
        optimizer.zero_grad()
        result.loss.backward()  # type: ignore[no-untyped-call]
        log_ratio = (logprobs.detach() - old[part])[mask[part]]
        low, high = min(low, float(log_ratio.min())), max(high, float(log_ratio.max()))
        gradients = [p.grad.norm() for p in policy.parameters() if p.grad is not None]
        norms.append(float(torch.stack(gradients).norm()))
        below.append(result.metrics.get("weight/below_half", 0.0))
        optimizer.step()
    return {
        "log_ratio_low": low,
        "log_ratio_high": high,
        "entropy": float(entropy[mask].mean()),
        "norm": fmean(norms),
        "norm_max": max(norms),
        "below_half": fmean(below),
    }
