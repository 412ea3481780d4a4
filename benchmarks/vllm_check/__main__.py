"""The quickstart, shortened, with `rollout.engine=vllm` beside `hf`: rewards by step, and the gap to the trainer after every update.

    make vllm
    python -m benchmarks.vllm_check [--out runs/vllm_check] [--python .venv-vllm/bin/python] [--seeds 0 1 2] [--write]

Both engines begin with the same policy and draw prompts in the same order, but vLLM has random numbers of its own: completions
differ, and curves are equal within the noise of seeds. Runs that are finished are not repeated. Prints a page; --write also
writes it to benchmarks/results/vllm.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from benchmarks.vllm_check.cases import FIRST, SHORT, WARM_UP_STEPS, Case, all_cases
from benchmarks.vllm_check.page import write_page
from benchmarks.vllm_check.runs import Run, read_run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "benchmarks" / "results" / "vllm.md"
CONFIG = ROOT / "configs" / "quickstart.yaml"


def run_vlrft(arguments: Sequence[str], folder: Path) -> None:
    """Trains in a folder unless a run there is finished. Raises CalledProcessError where it fails; its log is beside it."""
    if (folder / "report.html").exists():
        return
    command = [sys.executable, "-m", "vlrft", *arguments, "--out", str(folder), "--overwrite"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    with folder.with_suffix(".txt").open("w") as log:
        subprocess.run(command, check=True, cwd=ROOT, env=environment, stdout=log, stderr=log)


def warm_up(family: str, out: Path) -> Path:
    """The model of a family after the first stage."""
    folder = out / f"warm_up_{family}"
    run_vlrft(["train", str(CONFIG), *SHORT, *FIRST, f"policy.build.family={family}"], folder)
    return folder / "checkpoints" / f"step_{WARM_UP_STEPS}"


def write_second_stage(out: Path) -> Path:
    """The quickstart without its policy and its first stage."""
    config = yaml.safe_load(CONFIG.read_text("utf-8"))
    del config["policy"], config["stages"][0]
    path = out / "second_stage.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/vllm_check"))
    parser.add_argument("--python", default=str(ROOT / ".venv-vllm" / "bin" / "python"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    config = write_second_stage(out)
    cases: list[Case] = all_cases(arguments.seeds)
    models = {family: warm_up(family, out) for family in dict.fromkeys(c.family for c in cases)}
    runs: list[Run] = []
    for case in cases:
        print(case.name, flush=True)
        settings = case.settings(arguments.python, models[case.family])
        run_vlrft([*case.command, str(config), *settings], out / case.name)
        runs.append(read_run(case, out / case.name))
    page = write_page(runs, arguments.python)
    print(page)
    if arguments.write:
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
