"""The page of the comparison."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from statistics import mean, stdev

from benchmarks.vllm_check.cases import GAP, STEPS, WARM_UP_STEPS
from benchmarks.vllm_check.runs import Run

LIBRARIES = ("torch", "transformers", "vllm")
INTRODUCTION = """\
# vLLM beside hf

`python -m benchmarks.vllm_check --write`: the quickstart, its warm-up shortened to {warm_up} steps and its second stage to {steps}, with
both rollout engines from the same checkpoint. {machine}; trainer: {here}; server: {served}; float32.

## The gap after every update

How far the log-prob of a sampled token is from the one that the trainer computes with the weights of that step, in nats, over all
tokens that are trained on. A run with vLLM stops where the mean of a step is above {bound:g}.

{gaps}

## Rewards

Mean reward of each step. Prompts are drawn in the same order with both engines; GPG plays fresh ones while too few groups of a step have
signal, so which are drawn depends on the rewards. Completions differ, because vLLM draws random numbers in its own way.

{rewards}
"""
READ = "from importlib.metadata import version; print(*map(version, {}))"


def write_page(runs: Sequence[Run], python: str) -> str:
    """The tables of the runs in Markdown."""
    pairs = [(run, _other(run, runs)) for run in runs if run.case.engine == "vllm"]
    code = READ.format(LIBRARIES)
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    served = ", ".join(f"{n} {v}" for n, v in zip(LIBRARIES, done.stdout.split(), strict=True))
    here = ", ".join(f"{n} {runs[0].versions[n]}" for n in LIBRARIES[:2])
    return INTRODUCTION.format(
        warm_up=WARM_UP_STEPS,
        steps=STEPS,
        machine=f"{platform.machine()}, {os.cpu_count()} cores",
        here=here,
        served=served,
        bound=GAP,
        gaps="\n".join(_gap_table(pairs)),
        rewards="\n".join([*_reward_table(runs), "", *_noise(pairs)]),
    )


def _other(run: Run, runs: Sequence[Run]) -> Run:
    case = run.case
    key = (case.family, case.kind, case.seed)
    return next(
        r
        for r in runs
        if r.case.engine == "hf" and (r.case.family, r.case.kind, r.case.seed) == key
    )


def _gap_table(pairs: Sequence[tuple[Run, Run]]) -> list[str]:
    lines = [
        "| run | steps | largest, vllm | mean, vllm | largest, hf |",
        "| --- | --- | --- | --- | --- |",
    ]
    for ours, theirs in pairs:
        gaps = f"{max(ours.gaps):.1e} | {mean(ours.mean_gaps):.1e} | {max(theirs.gaps):.1e}"
        lines.append(f"| {_title(ours)} | {len(ours.gaps)} | {gaps} |")
    return lines


def _reward_table(runs: Sequence[Run]) -> list[str]:
    steps = range(1, max(len(run.rewards) for run in runs) + 1)
    lines = [
        "| run | engine | " + " | ".join(f"step {k}" for k in steps) + " | mean |",
        "| --- | --- | " + " | ".join("---" for _ in steps) + " | --- |",
    ]
    for run in sorted(runs, key=_title):
        cells = " | ".join(f"{reward:.2f}" for reward in run.rewards)
        lines.append(f"| {_title(run)} | {run.case.engine} | {cells} | {mean(run.rewards):.3f} |")
    return lines


def _noise(pairs: Sequence[tuple[Run, Run]]) -> list[str]:
    """The difference of the engines beside that of the seeds."""
    seeds = [(ours, theirs) for ours, theirs in pairs if not ours.case.kind]
    seeds = [pair for pair in seeds if pair[0].case.family == seeds[0][0].case.family]
    if len(seeds) < 2:
        return []
    engines = {
        run.case.engine: [mean(pair[k].rewards) for pair in seeds] for k, run in enumerate(seeds[0])
    }
    means = ", ".join(
        f"{engine} {mean(values):.3f} ± {stdev(values):.3f}" for engine, values in engines.items()
    )
    return [
        f"Mean reward over {len(seeds)} seeds ({seeds[0][0].case.family}), ± their deviation: {means}."
    ]


def _title(run: Run) -> str:
    words = (run.case.family, run.case.kind, f"seed {run.case.seed}")
    return " ".join(filter(None, words))
