"""Speed: tokens a second, kernels and syncs a token, MFU of the update, step split, and the same by TRL."""

from __future__ import annotations

import sys

from benchmarks.gpu import rollout_speed, step_speed, update_speed
from benchmarks.gpu.suite import Suite, run_suite

SUITE = Suite(
    name="speed",
    title="How fast is vlrft on a GPU?",
    about=(
        "Qwen2-VL-2B's shape in bfloat16 with random weights: rollouts beside `generate()`, updates at filled micro-batches, and",
        "their parts. A kernel is one that the profiler saw, copies included; a sync is a wait of the host. MFU: useful FLOPs relative",
        "to the rate of a plain matmul on the same machine. Medians of three.",
    ),
    cases={
        "ceilings": update_speed.find_ceilings,
        "decode": rollout_speed.decode,
        "update": update_speed.update_all,
        "step": step_speed.split,
        "decode, LoRA": rollout_speed.decode_lora,
        "update, LoRA": update_speed.update_lora,
        "tower": update_speed.towers,
        "head": update_speed.heads,
        "TRL": step_speed.beside_trl,
        "TRL with vLLM": step_speed.beside_trl_vllm,
    },
)


def main() -> int:
    return run_suite(SUITE)


if __name__ == "__main__":
    sys.exit(main())
