"""Update and rollout of one group on a GPU at Qwen2-VL-2B's shape in bf16, packed against replicated: time, FLOP, memory.

    python -m benchmarks.gpu [--out FOLDER] [--repeats 5] [--cases classification …] [--tiny]

Needs no network: weights are random, images are noise. Compared one after the other in one process, on the same prompts,
images, completions and advantages:

    replicated   one row per completion, its image encoded again, logits of the completion's positions only
    packed       vlrft with sdpa: prompt and image once per group
    packed flex  the same with flex_attention, without a mask of the squared row length

each with and without activation checkpointing, including the optimiser step; and rollouts against `generate()`. Check
before timing: log-probs of all variants within bf16's bound, gradient norms within 2 %. Useful FLOP are those needed once
(P + ΣC tokens of the backbone, one image, ΣC rows of the head, attention over attended positions, times 3); MFU is their
rate relative to that of a plain bf16 matmul on the same machine. --tiny: small shapes in float32, a test on a CPU.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.meter import ceiling, peak, seconds, useful_tflop
from benchmarks.gpu.policies import CASES, GROUP, TINY, Case, make_group, make_policy
from benchmarks.gpu.variants import Variant, advantages, check_equal, packed, replicated
from vlrft.config import UpdateConfig
from vlrft.engine.single import SingleEngine
from vlrft.policy.backbone import attending
from vlrft.policy.load import checkpoint_activations
from vlrft.policy.logprobs import model_inputs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine


def make_update(
    engine: SingleEngine, item: PackItem, score: Callable[[Policy, PackItem], Tensor]
) -> Callable[[], None]:
    weights = advantages(item, engine.policy.device)

    def work() -> None:
        engine.backward(-(score(engine.policy, item) * weights).sum(), last=True)
        engine.step()

    return work


@contextmanager
def set_checkpointing(policy: Policy, on: bool) -> Iterator[None]:
    if on:
        checkpoint_activations(policy.model)
    try:
        yield
    finally:
        if on:
            policy.model.gradient_checkpointing_disable()


def measure(
    policy: Policy, case: Case, args: argparse.Namespace, top: float
) -> Iterator[dict[str, Any]]:
    item, device = make_group(policy, case), policy.device
    shape = {**asdict(case), "prompt": len(item.prompt.ids), "group": GROUP}
    variants: list[Variant] = [("replicated", "sdpa", replicated), ("packed", "sdpa", packed)]
    if device.type == "cuda":  # flex_attention has no backward pass on a CPU
        variants.append(("packed flex", "flex_attention", packed))
    yield {"case": shape, "gate": check_equal(policy, item, variants)}
    useful = useful_tflop(policy, item)
    engine = SingleEngine(UpdateConfig(lr=1e-6), policy, 10**6)
    for checkpointing in (False, True):
        for name, attention, score in variants:
            work = make_update(engine, item, score)
            with (
                set_checkpointing(policy, checkpointing),
                attending(policy.backbone.decoder.config, attention),
            ):
                try:
                    times = seconds(work, args.repeats, device)
                    peak_gib = peak(work, device)
                except torch.cuda.OutOfMemoryError:
                    engine.discard()
                    yield {
                        "case": case.name,
                        "variant": name,
                        "checkpointing": checkpointing,
                        "error": "out of memory",
                    }
                    continue
            middle = statistics.median(times)
            yield {
                "case": case.name, "variant": name, "checkpointing": checkpointing, "seconds": times, "peak_gib": peak_gib,
                "useful_tflop": useful, "mfu": useful / middle / top,
            }  # fmt: skip
    yield from rollouts(policy, item, case, args.repeats)


def rollouts(policy: Policy, item: PackItem, case: Case, repeats: int) -> Iterator[dict[str, Any]]:
    """Rollouts whose completions all have `length` tokens: no token ends one."""
    policy.chat.end_ids = frozenset()
    request = Request(id=case.name, prompt=item.prompt, seeds=tuple(range(GROUP)))
    sampling = Sampling(max_tokens=case.length)
    ids = torch.tensor([item.prompt.ids])
    inputs = model_inputs(policy, ids, torch.ones_like(ids), item.prompt.images)
    limits = {"min_new_tokens": case.length, "max_new_tokens": case.length}

    def generate() -> None:
        policy.model.eval()
        policy.model.generate(**inputs, **limits, do_sample=True, num_return_sequences=GROUP)
        policy.model.train()

    engine = HfEngine(policy)
    for name, work in (
        ("generate()", generate),
        ("vlrft", lambda: engine.generate([request], sampling)),
    ):
        times = seconds(work, repeats, policy.device)
        tokens = GROUP * case.length / statistics.median(times)
        yield {"case": case.name, "rollout": name, "seconds": times, "tokens_s": tokens}


def page(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| case | variant | checkpointing | seconds (median) | replicated / variant | MFU | peak GiB |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    base: dict[tuple[str, bool], float] = {}
    for row in rows:
        if "error" in row:
            lines.append(
                f"| {row['case']} | {row['variant']} | {row['checkpointing']} | {row['error']} | | | |"
            )
        elif "variant" in row:
            middle, key = statistics.median(row["seconds"]), (row["case"], row["checkpointing"])
            if row["variant"] == "replicated":
                base[key] = middle
            ratio = f"{base[key] / middle:.2f}" if key in base else "-"
            memory = "-" if row["peak_gib"] is None else f"{row['peak_gib']:.1f}"
            lines.append(
                f"| {row['case']} | {row['variant']} | {row['checkpointing']} | {middle:.4f} | {ratio} | "
                f"{row['mfu']:.1%} | {memory} |"
            )
    lines += ["", "| case | rollout | seconds (median) | tokens/s |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {row['case']} | {row['rollout']} | {statistics.median(row['seconds']):.4f} | {row['tokens_s']:.0f} |"
        for row in rows if "rollout" in row
    ]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cases", nargs="+", choices=[case.name for case in CASES])
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not args.tiny:
        raise SystemExit("no GPU found: run on a GPU, or with --tiny on a CPU")
    import transformers

    dtype = torch.float32 if args.tiny else torch.bfloat16
    top = ceiling(device, dtype)
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor()
    rows: list[dict[str, Any]] = [
        {
            "machine": name, "torch": torch.__version__, "transformers": transformers.__version__,
            "python": platform.python_version(), "ceiling_tflops": top, "dtype": str(dtype),
        }
    ]  # fmt: skip
    print(rows[0], flush=True)
    for case in TINY if args.tiny else CASES:
        if args.cases and case.name not in args.cases:
            continue
        policy = make_policy("tiny" if args.tiny else "2b", str(device), dtype)
        for row in measure(policy, case, args, top):
            rows.append(row)
            print(row, flush=True)
        del policy
    args.out.mkdir(parents=True, exist_ok=True)
    stem = args.out / f"gpu_{datetime.now(timezone.utc):%Y-%m-%d}"
    stem.with_suffix(".json").write_text(json.dumps(rows, indent=1))
    text = f"# {name}\n\n{json.dumps(rows[0])}\n\n{page(rows)}\n"
    stem.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
