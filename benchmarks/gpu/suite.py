"""Runs the cases of a program one after another, each in a process of its own with a time limit, and writes their page.

A case is a function that yields rows. A row with a bound is right when its value is at most the bound; the first wrong row
and the first case that fails end the program, unless it is to keep going. Cases that have ended well are not run again on the same
commit and device.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.gpu.pages import Row, page, show
from benchmarks.records import Records, commit_of

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results"
PACKAGES = (
    *("torch", "transformers", "peft", "triton", "trl", "vllm", "accelerate"),
    *("deepspeed", "bitsandbytes", "flash-linear-attention"),
)
CASE_SECONDS = 240  # of one case at most
LEAST_SECONDS = 20  # a case is not started with less time left
UNFINISHED = 3  # exit code: time is up, and the same command goes on


@dataclass(frozen=True, kw_only=True)
class Options:
    """`device`: cuda or cpu. `tiny`: small shapes in float32, to try on a CPU that everything runs."""

    device: str
    tiny: bool


Case = Callable[[Options], Iterator[Row]]


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A program: its name, the first lines of its page, and its cases by name, the most telling first."""

    name: str
    title: str
    about: Sequence[str]
    cases: Mapping[str, Case]


def checked_row(what: str, value: float, bound: float) -> Row:
    """A number that is right up to the bound; NaN is wrong."""
    return {"what": what, "value": value, "bound": bound, "right": value <= bound}


def measured_row(what: str, value: float, unit: str) -> Row:
    return {"what": what, "value": value, "unit": unit}


def skipped_row(what: str, why: str) -> Row:
    return {"what": what, "skipped": why}


def machine(options: Options, commit: str | None) -> Row:
    """The device, versions and commit that the numbers depend on."""
    import torch

    gpu = options.device == "cuda"
    versions: dict[str, str] = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "commit": commit or commit_of(ROOT),
        "device": torch.cuda.get_device_name() if gpu else f"CPU, {platform.machine()}",
        "memory": torch.cuda.get_device_properties(0).total_memory if gpu else 0,
        "cuda": torch.version.cuda if gpu else None,
        "python": platform.python_version(),
        "versions": versions,
        "tiny": options.tiny,
    }


def run_suite(suite: Suite) -> int:
    """The command line of a program; returns its exit code: 1 for a wrong number, a failure or a case that took too long."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.gpu {suite.name}", description=" ".join(suite.about))  # fmt: skip
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small shapes in float32, for a trial on a CPU")  # fmt: skip
    parser.add_argument("--only", nargs="+", choices=list(suite.cases), metavar="CASE", help=", ".join(suite.cases))  # fmt: skip
    parser.add_argument("--again", action="store_true", help="also run cases that have ended well")
    parser.add_argument("--seconds", type=float, default=590.0, help="of the whole program")
    parser.add_argument("--case-seconds", type=float, default=CASE_SECONDS, help="of one case")
    parser.add_argument("--keep-going", action="store_true", help="after a wrong number or a failure, to see all of them")  # fmt: skip
    parser.add_argument("--commit", help="of these files, where they are a copy without its repository")  # fmt: skip
    parser.add_argument("--out", type=Path, help="benchmarks/results; on a CPU runs/gpu")
    parser.add_argument("--child", choices=list(suite.cases), help=argparse.SUPPRESS)
    args = parser.parse_args()
    options = Options(device=args.device, tiny=args.tiny)
    if args.child:
        return run_case(suite.cases[args.child], options, keep_going=args.keep_going)
    out = refuse_unfit(args, options)
    records = Records(out / f"gpu_{suite.name}.jsonl")
    here = machine(options, args.commit)
    names = [name for name in suite.cases if not args.only or name in args.only]
    start, code = time.monotonic(), 0
    for name in names:
        key = {"machine": here, "case": name}
        if records.find(key | {"ended": "well"}) and not args.again:
            print(f"{name}: has ended well before", flush=True)
            continue
        left = args.seconds - (time.monotonic() - start)
        if left < LEAST_SECONDS:
            print(f"time is up before {name}; the same command goes on from here", flush=True)
            code = UNFINISHED
            break
        records.remove(key)
        flags = ["--keep-going"] * args.keep_going
        rows = run_in_process(suite, name, options, min(left, args.case_seconds), out, *flags)
        records.add([key | row for row in rows])
        write_page(suite, here, records, out)
        print("\n".join(f"{name}: {show(row)}" for row in rows), flush=True)
        if rows[-1]["ended"] == "late":
            code = max(code, 1)
        elif rows[-1]["ended"] != "well":
            code = 1
            if not args.keep_going:
                break
    print(write_page(suite, here, records, out), flush=True)
    return code


def write_page(suite: Suite, here: Row, records: Records, out: Path) -> Path:
    """Writes the page of all cases that have run on this machine, those that have not run on this commit from the last one;
    returns its path."""
    rows = [row for name in suite.cases for row in last_rows(records, here, name)]
    path = out / f"gpu_{suite.name}.md"
    path.write_text(page(suite.name, suite.title, suite.about, here, rows), encoding="utf-8")
    return path


def last_rows(records: Records, here: Row, name: str) -> list[Row]:
    """A case's rows of this machine and commit; where there are none, those of its last run on another commit."""
    place = {key: value for key, value in here.items() if key != "commit"}
    rows = [row for row in records.find({"case": name}) if place.items() <= row["machine"].items()]
    commits = [row["machine"]["commit"] for row in rows]
    shown = here["commit"] if here["commit"] in commits else commits[-1] if commits else None
    return [row for row in rows if row["machine"]["commit"] == shown]


def refuse_unfit(args: argparse.Namespace, options: Options) -> Path:
    """The folder of the results. Exits where there is no GPU, and where a CPU's numbers would be among a GPU's."""
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("no GPU found; --device cpu --tiny tries on a CPU that everything runs")
    if options.device == "cpu" and not options.tiny:
        sys.exit("--device cpu needs --tiny: the shapes of a GPU take hours on a CPU")
    out: Path = args.out or (RESULTS if options.device == "cuda" else ROOT / "runs/gpu")
    if options.device == "cpu" and out.resolve() == RESULTS:
        sys.exit(f"--out {out}: a CPU's numbers do not belong there")
    return out


def run_case(case: Case, options: Options, *, keep_going: bool) -> int:
    """Runs a case in this process and prints each row as a line of JSON; stops after a wrong one unless `keep_going`."""
    for row in case(options):
        print(json.dumps(row), flush=True)
        if not row.get("right", True) and not keep_going:
            return 0
    return 0


def run_in_process(suite: Suite, name: str, options: Options, seconds: float, out: Path, *flags: str) -> list[Row]:  # fmt: skip
    """The rows of a case; the last one says how it ended: well, wrong, late or failed."""
    command = [sys.executable, "-m", "benchmarks.gpu", suite.name, "--child", name]
    command += ["--device", options.device, *(["--tiny"] if options.tiny else []), *flags]
    out.mkdir(parents=True, exist_ok=True)
    log = out / f"gpu_{suite.name}_{name}.log"
    start, late = time.monotonic(), False
    with log.open("w") as errors:
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)  # fmt: skip
        try:
            printed, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            printed, _ = child.communicate()
            late = True
    rows: list[Row] = [json.loads(x) for x in printed.splitlines() if x.startswith('{"what"')]
    if late:
        ended = "late"
    elif child.returncode:
        ended = "failed"
    elif not all(row.get("right", True) for row in rows) or not rows:
        ended = "wrong"
    else:
        ended = "well"
        log.unlink()
    last: Row = {"what": "ended", "ended": ended, "seconds": round(time.monotonic() - start, 1)}
    if ended == "failed":
        last["error"] = (log.read_text().strip().splitlines() or ["?"])[-1][:300]
    return [*rows, last]
