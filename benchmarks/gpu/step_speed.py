"""A whole step by its parts, and the same work by TRL."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.gpu.meter import wait
from benchmarks.gpu.pages import Row
from benchmarks.gpu.policies import GROUP, QUESTION, TINY, WORKS, make_policy
from benchmarks.gpu.suite import Options, checked_row, measured_row, skipped_row
from vlrft.advantages.rows import estimate_rows
from vlrft.algorithms import ALGORITHMS
from vlrft.config import UpdateConfig
from vlrft.distributed.phases import PhaseTimer, phase
from vlrft.engine.single import SingleEngine
from vlrft.policy.load import checkpoint_activations
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import IMAGE, Group, Rollout, Sample, TrainingRow
from vlrft.testing.small_policies import ask, noise_image
from vlrft.trainer.batch import make_batches
from vlrft.trainer.update import update

ALGORITHM = ALGORITHMS["dr_grpo"]
STEPS = 2  # timed, after one that is not
REPEATS = 2
TRL_CASES = ("P1", "P5")  # of benchmarks.vs_trl: an update, a whole step


def split(options: Options) -> Iterator[Row]:
    """Seconds of a step of 16 prompts in each phase: processing, rollout, update."""
    policy = make_policy(options)
    if not options.tiny:
        checkpoint_activations(policy.model)
    work = TINY[0] if options.tiny else WORKS[1]
    prompts = 2 if options.tiny else 16
    trainer = SingleEngine(UpdateConfig(lr=1e-6), policy, 10**6)
    sampler = HfEngine(policy)
    device = policy.device
    timer = PhaseTimer(synchronize=lambda: wait(device))

    def step(number: int) -> None:
        with phase("process"):
            samples = [
                Sample(
                    id=f"{number}/{k}",
                    messages=ask(IMAGE, QUESTION),
                    images=(noise_image(work.side, work.side, number * prompts + k),),
                )
                for k in range(prompts)
            ]
            rendered = [policy.chat.render(s.messages, s.images) for s in samples]
        with phase("rollout"):
            requests = [
                Request(id=s.id, prompt=p, seeds=tuple(range(GROUP)))
                for s, p in zip(samples, rendered, strict=True)
            ]
            answers = sampler.generate(requests, Sampling(max_tokens=work.length))
        with phase("update"):
            groups = [
                Group(
                    sample=s,
                    rollouts=tuple(
                        Rollout(sample=s, rows=(TrainingRow(prompt=p, pieces=(piece,)),), reward=float(g % 2))
                        for g, piece in enumerate(pieces)
                    ),
                )
                for s, p, pieces in zip(samples, rendered, answers, strict=True)
            ]  # fmt: skip
            advantages = estimate_rows(groups, ALGORITHM.estimator, max_tokens=work.length)
            batches = make_batches(groups, advantages, ALGORITHM, temperature=1.0, max_tokens=work.length)  # fmt: skip
            _, left = update(trainer, batches, ALGORITHM, UpdateConfig.max_tokens_per_micro_batch)
        assert not left, left

    step(0)
    with timer.running():
        for number in range(1, STEPS + 1):
            step(number)
    for path, total in sorted(timer.seconds.items()):
        yield measured_row(f"{path}, without the phases in it", total / STEPS, "s")
    yield measured_row("a step", sum(timer.seconds.values()) / STEPS, "s")


def beside_trl(options: Options) -> Iterator[Row]:
    """P1 and P5 of benchmarks.vs_trl on this device; TRL samples with generate()."""
    yield from compare(options, vllm=False)


def beside_trl_vllm(options: Options) -> Iterator[Row]:
    """P5 with TRL's rollouts by vLLM, in the same process."""
    if find_spec("vllm") is None:
        yield skipped_row("TRL with vLLM", "vllm is not installed")
        return
    yield from compare(options, vllm=True)


def compare(options: Options, *, vllm: bool) -> Iterator[Row]:
    if find_spec("trl") is None:
        yield skipped_row("TRL", "trl is not installed")
        return
    from benchmarks.vs_trl.__main__ import run
    from benchmarks.vs_trl.cases import Job, build_config, cases
    from benchmarks.vs_trl.data import save_model

    scale: Any = "small" if options.tiny else "full"
    for case in cases(list(TRL_CASES[vllm:]), scale):
        rows: list[dict[str, Any]] = []
        with TemporaryDirectory() as name:
            folder = Path(name)
            save_model(build_config(case, "qwen2_vl", scale), case.vocabulary, folder / "model")
            job = Job(
                case=case, folder=folder / "model", scratch=folder, threads=1 if options.tiny else 8,
                steps=REPEATS + 3, device=options.device, vllm=vllm,
            )  # fmt: skip
            run(job, range(REPEATS), rows.append)
        gate = rows[0]
        print(gate, file=sys.stderr)
        yield checked_row(f"{case.name}: differences from TRL", len(gate["mistakes"]), 0)
        for side, unit, key in (("vlrft", "s", "seconds"), ("trl", "s", "seconds"), ("vlrft", "MB", "megabytes"), ("trl", "MB", "megabytes")):  # fmt: skip
            values = [row[side][key] for row in rows[1:]]
            yield measured_row(f"{case.name}, {case.work}: {side}", median(values), unit)
