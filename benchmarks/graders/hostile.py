"""Hostile answers to every reward and grader: exceptions, points that cannot be due, and the time of each answer.

    python -m benchmarks.graders hostile [--answers 10000 --seed 1 --limit 2 --graders NAME … --work FOLDER]

Answers come from seeds: nested brackets, floods of tags and white space, digits, broken Unicode, LaTeX in pieces, the
right answer with edits, real answers cut and joined, up to 10 MB. A point is undue where the answer lacks what a right one
must have; released graders that pay for hostile texts, as their docstrings say, are listed. The time of a grader that
works in this process is processor time; of one with a worker, the whole time, with `--limit` seconds in place of its own
limit. Chunks that are done lie in FOLDER: run it again to go on. Prints the table and writes results/hostile.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from benchmarks.graders.paired import read_pairs
from vlrft.plugins.find import find_grader, reward_names
from vlrft.schema.errors import WorkerDied, WorkerTimeout
from vlrft.testing.hostile_targets import PAYS_AS_RELEASED, TARGETS, Target
from vlrft.testing.hostile_texts import hostile_answer, hostile_text, mutate
from vlrft.workers.worker import Worker

CHUNK = 250
SIZES = ((0.83, 2_000), (0.12, 20_000), (0.03, 200_000), (0.01, 1_000_000), (0.01, 10_000_000))
LIMIT = 0.05  # seconds of processor time of the 99th percentile
REAL = [
    answer for pairs in read_pairs("by_hand").equal.values() for pair in pairs for answer in pair
]
FORMS = ("{}", "<answer>{}</answer>", "<think>{}</think>{}", "\\boxed{{{}}}", "{}</think>\n<answer>7</answer>")  # fmt: skip


def draw_answer(random: Random, target: Target) -> str:
    """One hostile completion."""
    limit = random.choices([size for _, size in SIZES], [share for share, _ in SIZES])[0]
    if limit > 20_000:
        part = random.choice((hostile_text(random, 40), hostile_answer(random, 200), " ", "9"))
        text = (part or "\n") * (int(limit ** random.uniform(0.7, 1.0)) // len(part or "\n"))
        return _form(random, text)
    kind = random.randrange(5)
    if kind == 0:
        return mutate(random, target.right, edits=random.choice((1, 1, 3, 8)))
    if kind == 1:
        return _form(
            random, "".join(random.choice(REAL)[: random.randint(1, 30)] for _ in range(3))
        )
    if kind == 2:
        return _form(random, random.choice(REAL) + hostile_text(random, limit))
    return hostile_answer(random, limit)


def _form(random: Random, text: str) -> str:
    form = random.choice(FORMS)
    return form.replace("{}", text, 1).replace("{}", "", 1).replace("{{", "{").replace("}}", "}")


class Calls:
    """Notes how the calls of workers end, each with a shorter limit than its own."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.made = self.ended = 0

    def __call__(self, worker: Worker, *arguments: Any, seconds: float, **settings: Any) -> Any:
        self.made += 1
        try:
            return CALL(worker, *arguments, seconds=min(seconds, self.limit), **settings)
        except (WorkerTimeout, WorkerDied):
            self.ended += 1
            raise


CALL = Worker.call


def try_chunk(name: str, first: int, count: int, seed: int, calls: Calls) -> dict[str, Any]:
    """The results of the answers from `first` on."""
    grader, target = find_grader(name), TARGETS[name]
    result: dict[str, Any] = {"grader": name, "first": first, "cpu": [], "worker": [], "ended": 0}
    result |= {"exceptions": [], "undue": [], "paid": 0}
    for index in range(first, first + count):
        text = draw_answer(Random(f"{seed} {name} {index}"), target)
        made, ended = calls.made, calls.ended
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            score: Any = grader(text, target.sample)
        except Exception as e:
            result["exceptions"].append(f"{index}: {type(e).__name__}: {e!s:.80} {text[:80]!r}")
            score = 0.0
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        seconds, place = (cpu, "cpu") if calls.made == made else (wall, "worker")
        result[place].append(round(seconds, 6))
        result["ended"] += calls.ended - ended
        best = max(score.values()) if isinstance(score, Mapping) else score
        result["paid"] += best > target.free
        if name in PAYS_AS_RELEASED and math.isfinite(best):
            continue
        if not math.isfinite(best) or target.is_undue(best, text):
            result["undue"].append(f"{index}: {best} {text[:200]!r}")
    return result


def check_targets(names: Sequence[str]) -> None:
    """Every grader has a target, whose right answer has full marks."""
    missing = sorted(set(reward_names()) - set(TARGETS))
    if missing:
        raise SystemExit(f"hostile_targets.py has no target for {', '.join(missing)}")
    for name in names:
        score: Any = find_grader(name)(TARGETS[name].right, TARGETS[name].sample)
        best = max(score.values()) if isinstance(score, Mapping) else score
        assert best > TARGETS[name].free or name.startswith("length"), (name, score)


def run(names: Sequence[str], answers: int, seed: int, limit: float, work: Path) -> None:
    """Tries the chunks that are not in `work` yet."""
    work.mkdir(parents=True, exist_ok=True)
    calls = Calls(limit)
    with patch.object(Worker, "call", lambda *a, **k: calls(*a, **k)):
        for name in names:
            for first in range(0, answers, CHUNK):
                path = work / f"{name}_{seed}_{first}.json"
                if not path.exists():
                    count = min(CHUNK, answers - first)
                    result = try_chunk(name, first, count, seed, calls)
                    path.write_text(json.dumps(result), encoding="utf-8")
            print(*rows(work, [name], seed), sep="\n", flush=True)


def rows(work: Path, names: Sequence[str], seed: int) -> Iterator[str]:
    """A line of the table for each grader."""
    for name in names:
        paths = work.glob(f"{name}_{seed}_*.json")
        parts = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        cpu, worker = (sorted(v for part in parts for v in part[key]) for key in ("cpu", "worker"))
        exceptions, undue = (
            sum(len(part[key]) for part in parts) for key in ("exceptions", "undue")
        )
        points = f"{undue}" if name not in PAYS_AS_RELEASED else f"({PAYS_AS_RELEASED[name]})"
        ended = sum(part["ended"] for part in parts)
        slow = len(cpu) > len(worker) and _quantile(cpu, 0.99) >= LIMIT
        mark = " **slow**" if slow else ""
        yield (
            f"| `{name}` | {len(cpu) + len(worker)} | {exceptions} | {points} "
            f"| {_times(cpu)}{mark} | {len(worker)} | {_times(worker)} | {ended} |"
        )


def _times(seconds: Sequence[float]) -> str:
    values = [1000 * _quantile(seconds, share) for share in (0.5, 0.99, 1.0)]
    return " / ".join(f"{value:.3g}" for value in values) if seconds else "-"


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def page(work: Path, names: Sequence[str], arguments: argparse.Namespace) -> list[str]:
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return [
        "# Hostile answers to every reward and grader",
        "",
        f"`python -m benchmarks.graders hostile --answers {arguments.answers} --seed {arguments.seed} --limit"
        f" {arguments.limit:g}`, {datetime.date.today().isoformat()}, {machine}.",
        "",
        "Times in milliseconds, median / 99th percentile / longest: processor time of the answers graded in the process,"
        " whole time of those for which a worker was asked. Answers have up to 10 MB. Undue: points for an answer that"
        " cannot be right; in brackets, what a released grader pays for by its own defects. Where fewer answers are given"
        " than the command asks for, it was stopped; with the same `--work` it goes on.",
        "",
        "| grader | answers | exceptions | undue | in process | asked a worker | with it | ended at the limit |",
        "| --- " * 8 + "|",
        *rows(work, names, arguments.seed),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--answers", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=2.0)
    parser.add_argument("--graders", nargs="*", default=reward_names())
    parser.add_argument("--work", type=Path, default=Path("hostile_answers"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results")
    arguments = parser.parse_args()
    check_targets(arguments.graders)
    run(arguments.graders, arguments.answers, arguments.seed, arguments.limit, arguments.work)
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = "\n".join(page(arguments.work, arguments.graders, arguments)) + "\n"
    (arguments.out / "hostile.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
