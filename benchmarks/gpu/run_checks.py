"""Runs: resumed, on two processes of one device, by engines that shard, and their memory beside the plan."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.gpu.pages import Row
from benchmarks.gpu.suite import ROOT, Options, checked_row, measured_row, skipped_row
from benchmarks.memory import case as memory
from vlrft.algorithms import ALGORITHMS
from vlrft.config import PolicyConfig
from vlrft.distributed.ranks import Ranks
from vlrft.engine import build_engine
from vlrft.policy.load import load_policy
from vlrft.testing.count_step import StepCase, make_config
from vlrft.testing.engine_steps import (
    BUDGET,
    UPDATE,
    ragged_groups,
    relative_distance,
    sharding_engine,
    step_batches,
)
from vlrft.testing.process_ranks import run_ranks
from vlrft.testing.small_policies import CORPUS, tiny_config
from vlrft.trainer.update import update

OFF_PLAN = 0.2  # allowed, as in benchmarks.memory
SAME_STEP = 1e-4  # relative, of a weight's change in float32 summed in another order
STEPS, STOP_AFTER = 6, 2
SLACK = 10.0  # a resumed run may differ from a run as much as this many times two runs differ
SHARDING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("FSDP2", {"name": "fsdp"}),
    ("DeepSpeed stage 2", {"stage": 2}),
    ("DeepSpeed stage 3", {"stage": 3}),
)
BIG: Mapping[str, Any] = {
    "hidden_size": 1536, "layers": 8, "heads": 12, "kv_heads": 2, "intermediate_size": 8960,
    "vision_width": 1280, "vision_heads": 16, "vision_layers": 8,
}  # fmt: skip
SMALL: Mapping[str, Any] = {
    "hidden_size": 256,
    "layers": 4,
    "vision_width": 128,
    "vision_layers": 4,
}


def check_memory(options: Options) -> Iterator[Row]:
    """Peak memory of an update and of a rollout beside the plan: |estimate / measured − 1|."""
    build = dict(SMALL if options.tiny else BIG)
    vocab = memory.SMALL_VOCAB if options.tiny else 151_936
    dtype = "float32" if options.tiny else "bfloat16"
    settings: tuple[tuple[str, dict[str, Any]], ...] = (
        ("Qwen2-VL", {}),
        ("checkpointing", {"activation_checkpointing": True}),
        ("LoRA", {"lora": {"rank": 16}}),
        ("LoRA on 4 bits", {"lora": {"rank": 16}, "quantization": "nf4"}),
    )
    for name, more in settings:
        if "quantization" in more and find_spec("bitsandbytes") is None:
            yield skipped_row(f"{name}: off the plan by", "bitsandbytes is not installed")
            continue
        case = memory.Case(
            name=name, policy={"build": build, "dtype": dtype, **more}, vocab=vocab, prompts=2, text=64,
            image=16 if options.tiny else 56, tokens=32 if options.tiny else 256,
        )  # fmt: skip
        warm_up = memory.Case(
            name="", policy={"build": {}, "dtype": dtype}, tokens=2, text=8, image=8
        )
        memory.measure(warm_up, options.device)
        with memory.stored(case) as whole:
            expected = memory.estimate(whole, options.device)
            peaks = memory.measure(whole, options.device)
        for phase, peak in peaks.items():
            planned = expected[phase].total
            yield measured_row(f"{name}, {phase}: measured", peak / 2**20, "MiB")
            off = abs(planned / peak - 1)
            # A small process's resident size is mostly not the model's, so that a trial on a CPU has no bound.
            yield checked_row(f"{name}, {phase}: off the plan by", off, float("inf") if options.tiny else OFF_PLAN)  # fmt: skip


def check_two_processes(options: Options) -> Iterator[Row]:
    """Two ranks on one device take the same step as one process."""
    with TemporaryDirectory() as folder:
        work = partial(step_of_rank, options.device)
        # Forks of a process that has used CUDA cannot use it.
        method = "spawn" if options.device == "cuda" else "forkserver"
        gaps = run_ranks(work, Path(folder), method=method)[0]
    yield checked_row(
        "weights after two steps, two ranks against one", max(gaps.values()), SAME_STEP
    )


def step_of_rank(device: str, ranks: Ranks, folder: Path) -> dict[str, float]:
    """The distance of each weight from the one that a single process computes, on the first rank."""
    alone = train_twice(device, Ranks(), (0,) * 5)
    together = train_twice(device, ranks, (0, 0, 1, 1, 0))
    return {name: relative_distance(together[name], tensor) for name, tensor in alone.items()}


def check_sharded(options: Options) -> Iterator[Row]:
    """An engine that shards, with one rank, takes the same steps as the engine `single`."""
    alone = train_twice(options.device, Ranks(), (0,) * 5)
    for name, settings in SHARDING:
        if "stage" in settings and find_spec("deepspeed") is None:
            yield skipped_row(name, "deepspeed is not installed")
            continue
        with TemporaryDirectory() as folder:
            engine = sharding_engine(settings, Path(folder))
            weights = train_twice(options.device, Ranks(), (0,) * 5, engine)
        gaps = [relative_distance(weights[n], tensor) for n, tensor in alone.items()]
        yield checked_row(f"weights after two steps, {name} with one rank against `single`", max(gaps), SAME_STEP)  # fmt: skip


def train_twice(
    device: str, ranks: Ranks, owners: tuple[int, ...], choice: str | dict[str, Any] = "single"
) -> dict[str, Tensor]:
    config: PolicyConfig = tiny_config("qwen2_vl", dtype="float32")
    policy = load_policy(config, corpus=CORPUS, seed=0, device=device)
    before = {name: tensor.clone() for name, tensor in policy.trained_weights().items()}
    groups = [replace(g, rank=r) for g, r in zip(ragged_groups(policy), owners, strict=True)]
    engine = build_engine(UPDATE, policy, 4, ranks, choice)
    for _ in range(2):
        _, skipped_steps = update(engine, step_batches(groups, "gpg", ranks), ALGORITHMS["gpg"], BUDGET)  # fmt: skip
        assert not skipped_steps, skipped_steps
    with engine.unsharded():
        after = {n: tensor.clone() for n, tensor in engine.policy.trained_weights().items()}
    engine.close()
    return {n: (tensor - before[n]).cpu() for n, tensor in after.items()}


def check_resume(options: Options) -> Iterator[Row]:
    """A run that is interrupted and resumed equals an undisturbed one as nearly as two undisturbed ones equal each other."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        config = make_config(StepCase(groups=(True, True), size=4, length=8, ragged=True))
        config |= {"device": options.device, "stages": [{"steps": STEPS, "prompts_per_step": 2}]}
        config |= {"save": {"every": 2}, "update": {"lr": 1e-3}}
        path = folder / "resume.yaml"
        path.write_text(yaml.safe_dump(config))
        first, second, resumed = (folder / n for n in ("first", "second", "resumed"))
        together = [start(path, run) for run in (first, second)]
        interrupt(path, resumed)
        for process in (*together, start(path, resumed, "--resume")):
            process.communicate()
        for run in (first, second, resumed):
            if not (run / "checkpoints/last").exists():
                raise RuntimeError(f"{run.name}: {run.with_suffix('.log').read_text()[-300:]}")
        spread, gap = (weight_gap(first, other) for other in (second, resumed))
        yield measured_row("two undisturbed runs, relative distance of the weights", spread, "")
        yield checked_row("an interrupted and resumed run", gap, SLACK * spread)


def start(config: Path, run: Path, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "vlrft", "train", str(config), "--out", str(run), *flags]
    log = run.with_suffix(".log").open("w")
    packages = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, packages)])}
    return subprocess.Popen(command, stdout=log, stderr=log, text=True, env=environment)


def interrupt(config: Path, run: Path) -> None:
    """Starts a run and interrupts it after some steps."""
    process = start(config, run)
    metrics = run / "metrics.jsonl"
    while process.poll() is None:
        if metrics.exists() and metrics.read_text().count("\n") >= STOP_AFTER:
            process.send_signal(signal.SIGINT)
            break
        time.sleep(0.02)
    process.communicate()


def weight_gap(run: Path, other: Path) -> float:
    one, two = (load_file(r / "checkpoints/last/model.safetensors") for r in (run, other))
    return max(relative_distance(two[n].double(), t.double()) for n, t in one.items())
