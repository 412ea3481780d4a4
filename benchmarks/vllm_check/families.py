"""Small policies of each family through a real server of vLLM: the gap of its log-probs to the trainer's, after updates of all weights.

    make vllm
    python -m benchmarks.vllm_check.families [--python .venv-vllm/bin/python] [--families qwen3_vl glm4v] [--out runs/vllm_families]

A line for each family and update, with a gap for each of three prompts: one image, two of different sizes, none. Exit code 1 where one is
above 1e-5 nats.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from benchmarks.vllm_check.cases import GAP
from benchmarks.vllm_check.gaps import gaps
from vlrft.config import BuildConfig, PolicyConfig
from vlrft.policy.load import load_policy
from vlrft.rollout.engines import close_rollout_engine
from vlrft.rollout.engines.types import EnginePlace
from vlrft.rollout.engines.vllm.kind import Vllm

ROOT = Path(__file__).parents[2]
FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "glm4v")
UPDATES = 3


def measure(family: str, python: str, folder: Path) -> list[list[float]]:
    """The gaps before the first change of the weights and after each."""
    folder.mkdir(parents=True, exist_ok=True)
    build = BuildConfig(family=family, init_scale=4.0)
    policy = load_policy(PolicyConfig(build=build), corpus=["How many? Name a colour."], seed=0)
    policy.model.eval()
    place = EnginePlace(folder=folder, say=lambda line: print(line, file=sys.stderr), context=512)
    engine = Vllm(python=python).build_at(policy, place)
    try:
        found: list[list[float]] = []
        for step in range(UPDATES):
            engine.load_weights(policy.weights(), step)
            found.append(gaps(policy, engine))
            print(
                f"{family}, update {step}: {', '.join(f'{g:.1e}' for g in found[-1])}", flush=True
            )
            generator = torch.Generator().manual_seed(step)
            with torch.no_grad():
                for parameter in policy.model.parameters():
                    noise = torch.randn(parameter.shape, generator=generator)
                    parameter.add_(noise * (0.05 * parameter.abs().mean() + 0.01))
        return found
    finally:
        close_rollout_engine(engine)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", default=str(ROOT / ".venv-vllm" / "bin" / "python"))
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--out", type=Path, default=Path("runs/vllm_families"))
    arguments = parser.parse_args()
    largest = 0.0
    for family in arguments.families:
        found = measure(family, arguments.python, arguments.out / family)
        largest = max(largest, *(gap for update in found for gap in update))
    print(f"largest gap: {largest:.1e}, bound {GAP:g}")
    return int(largest > GAP)


if __name__ == "__main__":
    sys.exit(main())
