"""The quickstart with GRPO, sampled by vLLM and by hf from one warm-up: are the prompts of each step the same?

    make vllm
    python -m benchmarks.vllm_check.same_prompts [--python .venv-vllm/bin/python] [--out runs/vllm_prompts] [--steps 4]

GRPO plays every prompt that it draws once, so which prompts a step has depends on the seed alone; every group of a step is logged.
Exit code 1 if a step of the two runs has other samples, or has them in another order. Runs that are finished are not repeated.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.vllm_check.__main__ import ROOT, run_vlrft, warm_up, write_second_stage
from benchmarks.vllm_check.cases import Case

PROMPTS, GROUP = 16, 8
ENGINES = ("hf", "vllm")
Prompts = Mapping[int, Sequence[str]]  # the samples of each step, in their order


def read_prompts(run: Path) -> dict[int, list[str]]:
    """The samples of each step of a run: of every group of rollouts one."""
    rows = [json.loads(line) for line in (run / "rollouts.jsonl").read_text("utf-8").splitlines()]
    steps: dict[int, list[str]] = {}
    for row in rows[::GROUP]:
        steps.setdefault(row["step"], []).append(row["id"])
    return steps


def compare(ours: Prompts, theirs: Prompts) -> tuple[list[str], bool]:
    """A line for each step, and whether all steps have the same samples in the same order."""
    lines: list[str] = []
    same = ours.keys() == theirs.keys()
    for step in sorted({*ours, *theirs}):
        one, other = list(ours.get(step, ())), list(theirs.get(step, ()))
        equal = bool(one) and one == other
        same = same and equal
        first = next((k for k, pair in enumerate(zip(one, other, strict=False)) if len({*pair}) > 1), None)  # fmt: skip
        verdict = "the same" if equal else f"differ, first at prompt {first}"
        lines.append(f"step {step}: {len(one)} and {len(other)} prompts, {verdict}")
    return lines, same


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", default=str(ROOT / ".venv-vllm" / "bin" / "python"))
    parser.add_argument("--out", type=Path, default=Path("runs/vllm_prompts"))
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    config, model = write_second_stage(out), warm_up("qwen2_vl", out)
    length = [f"stages.0.steps={arguments.steps}", f"stages.0.prompts_per_step={PROMPTS}"]
    whole = ["algorithm=grpo", f"rollout.group_size={GROUP}", f"log.groups_per_step={PROMPTS}"]
    prompts: list[dict[int, list[str]]] = []
    for engine in ENGINES:
        case = Case(family="qwen2_vl", seed=0, engine=engine)
        settings = [*case.settings(arguments.python, model), *length, *whole]
        print(f"{engine} …", file=sys.stderr, flush=True)
        run_vlrft([*case.command, str(config), *settings], out / engine)
        prompts.append(read_prompts(out / engine))
    lines, same = compare(*prompts)
    print("\n".join(lines))
    print("the same prompts in every step" if same else "prompts differ")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
