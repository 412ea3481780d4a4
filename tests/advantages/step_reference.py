"""References of single steps, written from their formulas: loops over Python floats that share no code with the library.

An entry is a pipeline with the step, and what it gives for a toy.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from statistics import fmean, pvariance, stdev, variance
from typing import Any

from tests.advantages import reference
from tests.advantages.context_reference import CONTEXT_REFERENCES
from tests.advantages.reference import EPS, Numbers, Toy, by_group, differ, standardise
from tests.advantages.token_reference import TOKEN_REFERENCES

Steps = list[Any]


def random_toy(seed: int) -> Toy:
    """Ragged groups in any order; rewards of three levels, some of them float32 ties; components, one with gaps."""
    draw = random.Random(seed)
    sizes = [draw.randint(1, 5) for _ in range(draw.randint(1, 5))]
    group = [k for k, n in enumerate(sizes) for _ in range(n)]
    draw.shuffle(group)
    best = {k: draw.choice([0.0, 0.5, 1.0]) for k in range(len(sizes))}  # many groups are flat

    def level(k: int) -> float:
        value = best[k] if draw.random() < 0.5 else draw.choice([0.0, 0.5, 1.0])
        return value + draw.choice([0.0, 0.0, -1e-8, 1e-8])

    greedy = [draw.random() for _ in sizes]
    tokens = [draw.randint(0, 10) for _ in group]
    return Toy(
        rewards=[level(k) for k in group],
        group=group,
        tokens=tokens,
        signals=random_signals(random.Random(seed), tokens),
        past=random_past(random.Random(seed), len(sizes)),
        progress=random.Random(seed).random(),
        greedy=[greedy[k] for k in group],
        scores={
            "right": [draw.choice([0.0, 1.0]) for _ in group],
            "style": [draw.choice([math.nan, 0.2, 0.7]) for _ in group],
            "calls": [float(draw.randint(0, 3)) for _ in group],
        },
        weights={"right": 1.0, "style": 0.25},
        max_tokens=10,
        truncated=[draw.random() < 0.3 for _ in group],
    )


def random_signals(draw: random.Random, tokens: list[int]) -> dict[str, list[Numbers]]:
    """Numbers of tokens; of three tokens, so that many rollouts begin and end with the same ones."""
    return {
        "id": [[float(draw.choice([3, 3, 3, 4, 5])) for _ in range(n)] for n in tokens],
        "logprob": [[-3 * draw.random() for _ in range(n)] for n in tokens],
        "entropy": [[1.4 * draw.random() for _ in range(n)] for n in tokens],
        "certainty": [[9 * draw.random() for _ in range(n)] for n in tokens],
    }


def random_past(draw: random.Random, prompts: int) -> list[list[Numbers]]:
    """Rewards of up to three earlier visits of each prompt, of two to four rollouts."""
    return [
        [
            [draw.choice([0.0, 0.5, 1.0]) for _ in range(draw.randint(2, 4))]
            for _ in range(draw.randint(0, 3))
        ]
        for _ in range(prompts)
    ]


def members_of(toy: Toy, i: int) -> list[int]:
    return [j for j, k in enumerate(toy.group) if k == toy.group[i]]


def each(rule: Callable[[Toy, int, list[int]], float]) -> Callable[[Toy], Numbers]:
    """The rule for each rollout, with the rollouts of its group."""
    return lambda toy: [rule(toy, i, members_of(toy, i)) for i in range(len(toy.rewards))]


def combined(toy: Toy) -> Numbers:
    def value(i: int) -> float:
        parts = [(w, toy.scores[n][i]) for n, w in toy.weights.items()]
        return sum(w * s for w, s in parts if not math.isnan(s))

    return [value(i) for i in range(len(toy.rewards))]


def per_component(toy: Toy) -> Numbers:
    total = [0.0] * len(toy.rewards)
    for name, weight in toy.weights.items():
        for group in toy.groups():
            rows = [i for i in group if not math.isnan(toy.scores[name][i])]
            scores = [toy.scores[name][i] for i in rows]
            if differ(scores):
                for i, a in zip(rows, standardise(scores), strict=True):
                    total[i] += weight * a
    return total


def whitened(toy: Toy) -> Numbers:
    return reference.whiten(toy, reference.centred(toy))


def muted(toy: Toy) -> Numbers:
    return [0.0 if cut else a for a, cut in zip(reference.centred(toy), toy.truncated, strict=True)]


def overlong(toy: Toy) -> Numbers:
    pairs = zip(toy.rewards, toy.tokens, strict=True)
    return [r - min(max((n - 8) / 2, 0.0), 1.0) for r, n in pairs]


@each
def right_or_wrong(toy: Toy, i: int, group: list[int]) -> float:
    sides = [
        1 if toy.rewards[j] >= 1 - 1e-6 else -1 if toy.rewards[j] <= 1e-6 else 0 for j in group
    ]
    return float(sides[group.index(i)]) if 1 in sides and -1 in sides else 0.0


@each
def log_mean_exp(toy: Toy, i: int, group: list[int]) -> float:
    rewards, tau = [toy.rewards[j] for j in group], 0.5
    if not differ(rewards):
        return 0.0
    return (toy.rewards[i] - tau * math.log(fmean(math.exp(r / tau) for r in rewards))) / (1 + tau)


@each
def mapo(toy: Toy, i: int, group: list[int]) -> float:
    rewards = [toy.rewards[j] for j in group]
    if not differ(rewards):
        return 0.0
    p, mu = fmean(abs(r - 1) < 1e-6 for r in rewards), fmean(rewards)
    gap, mixed = toy.rewards[i] - mu, 4 * p * (1 - p)
    return mixed * gap / (stdev(rewards) + EPS) + (1 - mixed) * gap / (mu + EPS)


def bnpo(toy: Toy) -> Numbers:
    means = [min(max(fmean(toy.rewards[i] for i in g), 0.0), 1.0) for g in toy.groups()]
    alpha = beta = 1.0
    if len(means) > 1 and variance(means) > 1e-12:
        m, v = fmean(means), variance(means)
        alpha = max(1.0, 1 + (m * (1 - m) / v - 1) * m / 3)
        beta = max(1.0, 1 + (m * (1 - m) / v - 1) * (1 - m) / 3)
    out = [0.0] * len(toy.rewards)
    for p, group in zip(means, toy.groups(), strict=True):
        rewards = [toy.rewards[i] for i in group]
        if differ(rewards):
            norm = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
            inner = (alpha - 1) * math.log(p) + (beta - 1) * math.log(1 - p)
            density = math.exp(max(min(norm + inner, 600.0), -600.0))
            for i in group:
                out[i] = (toy.rewards[i] - fmean(rewards)) * min(1 / density, 1e6)
    return out


@each
def ngrpo(toy: Toy, i: int, group: list[int]) -> float:
    rewards = [*(toy.rewards[j] for j in group), 1.0, 1.0]
    if not differ(rewards):
        return 0.0
    return (toy.rewards[i] - fmean(rewards)) / (stdev(rewards) + EPS)


def s_grpo_at(toy: Toy, p: float) -> Numbers:
    return [_s_grpo(toy, i, members_of(toy, i), p) for i in range(len(toy.rewards))]


def _s_grpo(toy: Toy, i: int, group: list[int], p: float) -> float:
    rewards = [toy.rewards[j] for j in group]
    seen = fmean(r > 1e-6 for r in rewards)
    if not differ(rewards) or seen in (0, 1):
        return 0.0
    t = min(max((seen - p) / (1 - 2 * p), 0.0), 1.0)
    if t in (0, 1):
        return 0.0
    w = (1 - 2 * p) * t * (1 - t) / (math.sqrt(seen * (1 - seen)) * math.sqrt(t * (1 - t)))
    return w * (toy.rewards[i] - fmean(rewards)) / (stdev(rewards) + EPS)


def lead(toy: Toy, from_tokens: float = 4.0) -> Numbers:
    out = [0.0] * len(toy.rewards)
    for group in toy.groups():
        right = [i for i in group if toy.rewards[i] > 1e-6]
        shortest = sorted(toy.tokens[i] for i in group)[:3]
        rewards = {i: 1.0 if i in right else -1.0 for i in group}
        if len(right) > 1 and (len(shortest) < 3 or fmean(shortest) > from_tokens):
            lengths = [toy.tokens[i] for i in right]
            for i in right:
                z = (toy.tokens[i] - fmean(lengths)) / (stdev(lengths) + EPS)
                rewards[i] = math.exp(-0.05 * z)
        values = [rewards[i] for i in group]
        p = len(right) / len(group)
        if differ(values):
            for i, a in zip(group, standardise(values), strict=True):
                x = p if a > 0 else 1 - p
                out[i] = a * (0.4 + 1.1 / (1 + math.exp(10 * (x - 0.75))))
    return out


@each
def concise(toy: Toy, i: int, group: list[int]) -> float:
    right = all(toy.rewards[j] >= 1 - 1e-6 for j in group)
    return toy.rewards[i] + (1 - toy.tokens[i] / toy.max_tokens if right else 0.0)


@each
def gate(toy: Toy, i: int, group: list[int]) -> float:
    style, right = toy.scores["style"][i], toy.scores["right"][i]
    return right + (0.25 * style if right >= 1 and not math.isnan(style) else 0.0)


def present(toy: Toy, i: int) -> Numbers:
    return [s for s in (toy.scores["right"][i], toy.scores["style"][i]) if not math.isnan(s)]


@each
def few_calls(toy: Toy, i: int, group: list[int]) -> float:
    right = [j for j in group if toy.rewards[j] >= 1 - 1e-6]
    if not right:
        return toy.rewards[i]
    m, n = toy.scores["calls"][i], min(toy.scores["calls"][j] for j in right)
    if n == 0:
        factor = 1.0 if m == 0 else math.cos(m * math.pi / (2 * m + 2))
    else:
        factor = math.sin(2 * n * m / (m + n) * math.pi / (2 * n))
    return factor * toy.rewards[i]


def first_turns(toy: Toy) -> Numbers:
    """Of episodes of one turn: both rewards standardised together."""
    return by_group(toy, standardise, combined(toy))


STEP_REFERENCES: Mapping[str, tuple[Steps, Callable[[Toy], Numbers | list[Numbers]]]] = {
    **TOKEN_REFERENCES,
    **CONTEXT_REFERENCES,
    "centre": (["centre"], reference.centred),
    "scale": (["centre", "scale"], reference.standardised),
    "leave_one_out": (["leave_one_out"], reference.rloo),
    "minus_greedy": (["minus_greedy"], reference.remax),
    "whiten": (["centre", "whiten"], whitened),
    "one": (["one"], lambda toy: [1.0] * len(toy.rewards)),
    "best_against_worst": (["best_against_worst"], reference.best_against_worst),
    "combine": (["combine"], combined),
    "per_component": (["per_component"], per_component),
    "overlong": ([{"step": "overlong", "buffer": 2}], overlong),
    "mute_truncated": (["centre", "mute_truncated"], muted),
    "add_step": (["centre", "scale", "add_step"], reference.standardised),  # of one turn
    "each_turn": (["each_turn", "centre"], reference.centred),
    "right_or_wrong": (["right_or_wrong"], right_or_wrong),
    "mute_flat": (
        ["mute_flat"],
        lambda toy: by_group(toy, lambda values: values, toy.rewards),
    ),
    "shift": (["centre", "shift"], lambda toy: [a + 0.1 for a in reference.centred(toy)]),
    "log_mean_exp": ([{"step": "log_mean_exp", "temperature": 0.5}], log_mean_exp),
    "mixed_deviation": (["mixed_deviation"], mapo),
    "beta_normalise": (["beta_normalise"], bnpo),
    "virtual_best": ([{"step": "virtual_best", "count": 2}], ngrpo),
    "noise_aware": ([{"step": "noise_aware", "flip": 0.2}], lambda toy: s_grpo_at(toy, 0.2)),
    "denoise": (
        [{"step": "denoise", "false_positive": 0.1, "false_negative": 0.2}],
        lambda toy: [(r - 0.1) / 0.7 for r in toy.rewards],
    ),
    "forward_noise": (
        [{"step": "forward_noise", "false_negative": 0.2}],
        lambda toy: [0.2 if r >= 1 - 1e-6 else -0.8 for r in toy.rewards],
    ),
    "lead": ([{"step": "lead", "from_tokens": 4}], lead),
    "shorter_when_right": (["shorter_when_right"], concise),
    "gate": ([{"step": "gate", "of": "style", "by": "right"}], gate),
    "worst_of": (
        [{"step": "worst_of", "names": ["right", "style"]}],
        each(lambda toy, i, group: min(present(toy, i))),
    ),
    "mean_minus_variance": (
        [{"step": "mean_minus_variance", "names": ["right", "style"], "weight": 0.5}],
        each(lambda toy, i, group: fmean(present(toy, i)) - 0.5 * pvariance(present(toy, i))),
    ),
    "few_calls": (["few_calls"], few_calls),
    "first_turns": ([{"step": "first_turns", "turn": ["style"]}], first_turns),
    "times": (
        ["centre", {"step": "times", "score": "calls", "alpha": 0.25, "shape": "focal"}],
        lambda toy: [
            a * (1 - 0.25 * s) ** 2
            for a, s in zip(reference.centred(toy), toy.scores["calls"], strict=True)
        ],
    ),
}
"""Step -> a pipeline that ends with it, and its values [R] for single-turn rollouts, or its advantages [R][T] where it gives
credit by token; test_turns.py has those of episodes."""
