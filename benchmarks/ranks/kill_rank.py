"""`kill -9` of one rank during sampling, the backward pass and saving: the message, the time until all ranks stop, and
the final weights after resuming, compared with an undisturbed run.

    python -m benchmarks.ranks.kill_rank --out FOLDER [--config tests/fixtures/ranks.yaml] [key=value …]

Prints a row per kill: the phase, the message, seconds from the kill to the end of all ranks, and the relative difference
between the final weights of the undisturbed run and those after `--resume` on two ranks and on one.
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

from benchmarks.programs import make_folder

STEP = 4
KILLS = {"rollout/decode": "1", "update/backward": "1", "save": "0"}  # phase -> rank
DEADLY = """
import os, signal, time
from pathlib import Path
from vlrft.distributed import phases

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


def launch(run: Path, ranks: int, arguments: list[str], phase: str = "") -> tuple[str, float]:
    """Run to the end or to the kill; returns the messages and the seconds from the kill to the end."""
    marker = run.with_suffix(".killed")
    env = {
        **os.environ,
        "DEADLY_MARKER": str(marker),
        "DEADLY_PHASE": phase,
        "DEADLY_RANK": KILLS.get(phase, ""),
    }
    command = [sys.executable, "-m", "vlrft", "launch", "--ranks", str(ranks), *arguments]
    done = subprocess.run([*command, "--out", str(run)], env=env, capture_output=True, text=True)
    end = time.time()
    messages = [line for line in done.stderr.splitlines() if line.startswith("vlrft: ")]
    if bool(phase) != bool(done.returncode):
        sys.exit(f"{run}: exit code {done.returncode}\n{done.stderr}")
    return "; ".join(messages), end - float(marker.read_text()) if phase else 0.0


def gap(run: Path, other: Path) -> float:
    """Relative difference of the final weights, over all tensors."""
    one, two = (load_file(r / "checkpoints/last/model.safetensors") for r in (run, other))
    squares = sum(float((one[k] - two[k]).double().square().sum()) for k in two)
    return float((squares / sum(float(t.double().square().sum()) for t in two.values())) ** 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--config", default="tests/fixtures/ranks.yaml")
    args = parser.parse_intermixed_args()
    make_folder(args.out)
    reward = args.out / "deadly.py"
    reward.write_text(DEADLY)
    arguments = [args.config, f"task.rewards={{{reward}:even: 1.0}}", *args.overrides]
    undisturbed = args.out / "undisturbed"
    launch(undisturbed, 2, arguments)
    print(
        "| killed in | message | stopped after | resumed on 2 | on 1 |\n| --- | --- | ---: | ---: | ---: |"
    )
    for phase in KILLS:
        run = args.out / phase.replace("/", "_")
        message, seconds = launch(run, 2, arguments, phase)
        other = args.out / f"{run.name}_on_1"
        shutil.copytree(run, other, symlinks=True)
        launch(run, 2, [*arguments, "--resume"])
        launch(other, 1, [*arguments, "--resume"])
        gaps = " | ".join(f"{gap(r, undisturbed):.1e}" for r in (run, other))
        print(f"| {phase} | {message} | {seconds:.1f} s | {gaps} |", flush=True)


if __name__ == "__main__":
    main()
