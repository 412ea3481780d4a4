"""Correctness: every equality gate on the GPU, in float32, TF32 and bf16; stops with the first wrong number."""

from __future__ import annotations

import sys

from benchmarks.gpu import attention_checks, model_checks, run_checks
from benchmarks.gpu.suite import Suite, run_suite

SUITE = Suite(
    name="correctness",
    title="Is vlrft right on a GPU?",
    about=(
        "kernels of attention against their definition in float64, packed against replicated log-probs and gradients,",
        "the sampler against the trainer, resumed and killed runs, two processes on one device, engines that shard, peak memory beside the planner's.",
    ),
    cases={
        "kernels": attention_checks.check_kernels,
        "float32": model_checks.check_float32,
        "bfloat16": model_checks.check_bfloat16,
        "tf32": model_checks.check_tf32,
        "flex": model_checks.check_flex,
        "sampling": model_checks.check_sampling,
        "graph": model_checks.check_graph,
        "large scores": model_checks.check_large_scores,
        "memory": run_checks.check_memory,
        "two processes": run_checks.check_two_processes,
        "sharded": run_checks.check_sharded,
        "resume": run_checks.check_resume,
    },
)


def main() -> int:
    return run_suite(SUITE)


if __name__ == "__main__":
    sys.exit(main())
