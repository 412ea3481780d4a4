"""Kill -9 of one rank in the middle of sampling, of the backward pass, of saving: what is said, how long it takes, and
whether the run goes on to the weights of an undisturbed one.

    python -m benchmarks.ranks.kill_rank --out FOLDER [--config tests/fixtures/ranks.yaml] [key=value …]

Prints a row a kill: the phase, the message, seconds from the kill to the end of all ranks, and the relative difference
of the final weights after `--resume` on as many ranks and on one, to the undisturbed run's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from safetensors.torch import load_file

STEP = 4
KILLS = {"rollout/decode": "1", "update/backward": "1", "save": "0"}  # phase -> rank
DEADLY = """
import os, signal, time
from pathlib import Path
from vlrft.tracing import phases

marker, wanted, rank = Path(os.environ["DEADLY_MARKER"]), os.environ["DEADLY_PHASE"], os.environ["DEADLY_RANK"]

class Deadly:
    def __init__(self):
        self.open, self.step = [], 0
    def begin(self, name):
        self.open.append(name)
        if "/".join(self.open) == wanted and self.step == STEP and not marker.exists():
            marker.write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
    def end(self):
        self.open.pop()
    def work_on(self, samples, step=None):
        self.step = self.step if step is None else step

if os.environ.get("RANK") == rank:
    deadly, enter, leave = Deadly(), phases.phase.__enter__, phases.phase.__exit__
    def entering(self):
        enter(self)
        deadly.begin(self.name)
    def leaving(self, *error):
        deadly.end()
        leave(self, *error)
    phases.phase.__enter__, phases.phase.__exit__ = entering, leaving
    import vlrft.trainer.train
    original = vlrft.trainer.train.work_on
    def work_on(samples, step=None):
        deadly.work_on(samples, step)
        original(samples, step)
    vlrft.trainer.train.work_on = work_on

def even(completion, sample):
    return float(len(completion) % 2 == 0)
""".replace("STEP", str(STEP))


def start(run: Path, ranks: int, given: list[str], phase: str = "") -> tuple[str, float]:
    """Runs to the end or to the kill; what was said last, and the seconds from the kill to the end."""
    marker = run.with_suffix(".killed")
    env = {
        **os.environ,
        "DEADLY_MARKER": str(marker),
        "DEADLY_PHASE": phase,
        "DEADLY_RANK": KILLS.get(phase, ""),
    }
    command = [sys.executable, "-m", "vlrft", "launch", "--ranks", str(ranks), *given]
    found = subprocess.run([*command, "--out", str(run)], env=env, capture_output=True, text=True)
    ended = time.time()
    own = [line for line in found.stderr.splitlines() if line.startswith("vlrft: ")]
    if bool(phase) != bool(found.returncode):
        sys.exit(f"{run}: exit code {found.returncode}\n{found.stderr}")
    return "; ".join(own), ended - float(marker.read_text()) if phase else 0.0


def gap(run: Path, other: Path) -> float:
    """Relative difference of all final weights."""
    one, two = (load_file(r / "checkpoints/last/model.safetensors") for r in (run, other))
    squares = sum(float((one[k] - two[k]).double().square().sum()) for k in two)
    return float((squares / sum(float(t.double().square().sum()) for t in two.values())) ** 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--config", default="tests/fixtures/ranks.yaml")
    args = parser.parse_intermixed_args()
    shutil.rmtree(args.out, ignore_errors=True)
    args.out.mkdir(parents=True)
    reward = args.out / "deadly.py"
    reward.write_text(DEADLY)
    given = [args.config, f"task.rewards={{{reward}:even: 1.0}}", *args.overrides]
    whole = args.out / "whole"
    start(whole, 2, given)
    print(
        "| killed in | said | stopped after | resumed on 2 | on 1 |\n| --- | --- | ---: | ---: | ---: |"
    )
    for phase in KILLS:
        run = args.out / phase.replace("/", "_")
        said, seconds = start(run, 2, given, phase)
        other = args.out / f"{run.name}_on_1"
        shutil.copytree(run, other, symlinks=True)
        start(run, 2, [*given, "--resume"])
        start(other, 1, [*given, "--resume"])
        gaps = " | ".join(f"{gap(r, whole):.1e}" for r in (run, other))
        print(f"| {phase} | {said} | {seconds:.1f} s | {gaps} |", flush=True)


if __name__ == "__main__":
    main()
