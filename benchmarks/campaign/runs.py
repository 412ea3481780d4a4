"""The small runs that cases disturb, and what each of them gives undisturbed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from benchmarks.campaign.outcome import fingerprint, judge_end
from benchmarks.campaign.process import ORDINARY, Child, Ended, Setting, run, start

HERE = Path(__file__).parent
CONFIG = HERE / "run.yaml"
SCRATCH = Path(os.environ.get("TMPDIR", "/tmp")) / "vlrft_campaign"
REWARD = """
def even(completion, sample):
    return float(len(completion) % 2 == 0)
"""
VARIANTS: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    "worker": ("task.rewards={choice: 1.0, ./even.py: {weight: 0.5, workers: 1}}",),
    "reference": ("algorithm={name: grpo, regularize: {kl: 0.1}}", "save.every=2"),
    "text": ("policy.build.family=qwen2_5_vl", "eval.every=1"),
    "env": (
        "task={name: gridworld, env: {workers: 1, max_turns: 3}}",
        "stages.0.task={options: {train: 8}}",
        "stages.1.task=null",
    ),
}


def arguments(variant: str, *flags: str) -> list[str]:
    """The arguments of `vlrft` that train a variant of the small run into `run`."""
    return ["train", str(CONFIG), *VARIANTS[variant], "--out", "run", *flags]


def prepare_folder(folder: Path) -> None:
    """Puts what the variants' configs refer to into a folder."""
    (folder / "even.py").write_text(REWARD)


def train(folder: Path, variant: str, *flags: str, log: Path | None = None) -> Ended:
    """Trains in a folder, to the end."""
    return run(arguments(variant, *flags), folder, log=log)


def start_training(folder: Path, variant: str, *flags: str, setting: Setting = ORDINARY) -> Child:
    return start(arguments(variant, *flags), folder, setting=setting)


@cache
def undisturbed_run(variant: str) -> Path:
    """A folder with the finished run of a variant, in `run`, trained once for each process of the campaign."""
    folder = SCRATCH / f"undisturbed_{variant}_{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    prepare_folder(folder)
    ended = train(folder, variant)
    if ended.code != 0 or judge_end(ended):
        raise RuntimeError(f"the undisturbed run fails: {ended}")
    return folder


@cache
def expected_hashes(variant: str) -> Mapping[str, str]:
    """The fingerprint of a variant's undisturbed run."""
    return fingerprint(undisturbed_run(variant) / "run")


@cache
def undisturbed_seconds(variant: str) -> float:
    """Seconds of training, from the run's own summary."""
    rows = (undisturbed_run(variant) / "run/metrics.jsonl").read_text().splitlines()
    return 2.0 + sum(float(json.loads(line).get("time/step", 0.5)) for line in rows)


def finish(folder: Path, variant: str, log: Path | None = None) -> list[Ended]:
    """Resumes a run until it ends well, as a user would: from the start where nothing was written yet."""
    attempts: Sequence[tuple[str, ...]] = (("--resume",), (), ("--overwrite",))
    ends = []
    for flags in attempts:
        ends.append(train(folder, variant, *flags, log=log))
        if ends[-1].code == 0:
            break
    return ends
