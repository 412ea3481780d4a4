"""Coverage-guided fuzzing of the readers, where atheris is installed: a case is half a minute on one reader."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from random import Random

from benchmarks.campaign.case import Finding, Kind, Outcome, Plan, Result
from benchmarks.campaign.runs import SCRATCH
from vlrft.testing.hostile_parsing import PARSERS

NAMES = sorted({*PARSERS} - {"chat"})  # a tokenizer is compiled code, which coverage does not see
SECONDS = 30
GRACE = 150.0  # seconds to import and to end


def draw(random: Random) -> Plan:
    return {"parser": random.choice(NAMES), "seed": random.randrange(1, 2**31)}


def run(plan: Plan, folder: Path) -> Result:
    corpus = SCRATCH / "corpus" / plan["parser"]
    command = [sys.executable, "-m", "benchmarks.campaign.fuzz", plan["parser"]]
    command += [str(SECONDS), str(plan["seed"]), str(corpus)]
    root = Path(__file__).parents[2]
    try:
        done = subprocess.run(
            command,
            cwd=root,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS + GRACE,
        )
    except subprocess.TimeoutExpired:
        return Result(findings=(Finding(outcome="unclear", text=f"{plan['parser']}: hangs"),))
    count = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    trials = int(count[1]) if count else 1
    if done.returncode == 0:
        return Result(trials=trials)
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            row = json.loads(line)
            text = f"{plan['parser']}: {row['problem']} on {row['content'][:300]!r}"
            outcome: Outcome = "wrong" if "control tokens" in text else "unclear"
            return Result(findings=(Finding(outcome=outcome, text=text),), trials=trials)
    tail = " | ".join(done.stderr.splitlines()[-4:])
    text = f"{plan['parser']}: ends with {done.returncode}: {tail}"
    return Result(findings=(Finding(outcome="unclear", text=text[:500]),), trials=trials)


GUIDED = Kind(
    name="fuzzing",
    doc="coverage-guided fuzzing of the same readers with atheris",
    draw=draw,
    run=run,
    share=1.0,
    trains=False,
    needs=("atheris",),
)
