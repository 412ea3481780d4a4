"""Every command on models of released size with random weights, on this machine, and the memory plan beside what is measured.

    python -m benchmarks.real_size --work /tmp/real_size [--models 2b 3b 7b 7b-2.5] [--repeats 3] [--again STEP …]

Qwen2-VL-2B and Qwen2.5-VL-3B are made whole, 4.4 and 7.5 GB, and go through doctor, evaluation, a GPG step with LoRA, export,
plain transformers, and a GPG step with LoRA on 4-bit weights; the 7B ones are made on the meta device, for their shapes and their plan. --work keeps the models and
the result of each step, and a second call goes on after the last one; delete it afterwards. It takes three times the model's
size on disk; `load` deletes what `export` wrote, so that they are repeated together: --again export load. Writes
benchmarks/results/real_size.md; exit code 1 where a plan is off by more than a twentieth in update or save, a step has
failed, or a count is not the published one. The real tokenizer comes from the package dashscope: pip install --no-deps
dashscope.

Memory is resident size above that of the libraries and the tokenizer, which the same work on a small model loads first. glibc
keeps freed memory below the top of its heap, except for blocks larger than a threshold, at first 128 KiB, that it raises;
MALLOC_MMAP_THRESHOLD_ fixes it there, so that resident memory is memory in use.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.real_size.released import MODELS
from benchmarks.real_size.report import ALLOWED, off_plan, write_report

KIB = 2**10
WHOLE = ("build", "shapes", "doctor", "eval", "train", "export", "load", "train_nf4")
ON_META = ("shapes",)
REPEATED = "train"
QUIET = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(128 * KIB)}


def run_step(step: str, name: str, folder: Path, result: Path) -> bool:
    """Runs a step in a new process, unless it has a result. Whether it succeeded."""
    if result.is_file():
        return True
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.real_size.steps", step, name, str(folder)]
    root = str(Path(__file__).parents[2])
    log = result.with_suffix(".log")
    with log.open("w") as errors:
        done = subprocess.run(
            command,
            env=os.environ | QUIET | {"PYTHONPATH": root},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"')]
    if done.returncode or not lines:
        print(f"{name} {step}: failed, see {log}", flush=True)
        return False
    result.write_text(lines[-1])
    seconds = {k: round(json.loads(lines[-1])[k], 1) for k in ("seconds", "cpu_seconds", "load")}
    print(f"{name} {step}: {seconds}", flush=True)
    return True


def run_model(name: str, work: Path, repeats: int) -> tuple[dict[str, list[dict[str, Any]]], bool]:
    """The results of each step of a model, and whether all succeeded."""
    folder = work / MODELS[name].name
    results: dict[str, list[dict[str, Any]]] = {}
    for step in WHOLE if MODELS[name].whole else ON_META:
        count = repeats if step == REPEATED else 1
        files = [folder / f"{step}{k or ''}.json" for k in range(count)]
        if not all(run_step(step, name, folder, file) for file in files):
            return results, False
        results[step] = [json.loads(file.read_text()) for file in files]
    return results, True


def result_files(folder: Path, step: str) -> list[Path]:
    """The results of the step's runs: train.json, train1.json, but not train_nf4.json."""
    return [file for file in folder.glob("*.json") if re.fullmatch(rf"{step}\d*", file.stem)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="folder of the models")
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--repeats", type=int, default=3, help="training runs (default: 3)")
    parser.add_argument("--again", nargs="*", default=[], help="steps whose results are dropped")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.models:
        for step in args.again:
            for file in result_files(args.work / MODELS[name].name, step):
                file.unlink()
    trials, whole = {}, True
    for name in args.models:
        trials[name], succeeded = run_model(name, args.work.absolute(), args.repeats)
        whole = whole and succeeded
    print(write_report(trials, args.out / "real_size.md"))
    off = [line for trial in trials.values() for line in off_plan(trial)]
    print("\n".join(off) or f"every plan within {ALLOWED:.0%}")
    return 0 if whole and not off else 1


if __name__ == "__main__":
    sys.exit(main())
