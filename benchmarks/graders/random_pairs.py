"""Errors of graders of mathematics on pairs that a random grammar makes and computer algebra certifies.

    python -m benchmarks.graders random_pairs [--pairs 4000] [--seed 1] [--out benchmarks/results]

Nobody chose these pairs, so nobody corrected a grader on them beforehand. A gold answer is drawn from a
grammar (numbers, expressions, functions that change their branch, relations, collections, notations). An
equal answer is the same value rewritten by an identity and printed in another way; an unequal one differs
by one changed part. sympy certifies each pair with 40 digits, at points of several scales and of both
signs; a pair that it cannot certify is not used. Prints errors by kind for the strict grader and for
math-verify, and writes them to graders_random.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from vlrft.rewards.math_answer import math_answer

from benchmarks.graders import random_kinds as kinds
from benchmarks.graders import random_relations as relations
from benchmarks.graders.math_verify_worker import verify
from benchmarks.graders.random_values import Pair, branching, expression, number, values_pair
from vlrft.grading import sandboxed_worker
from vlrft.schema import DataError, Sample

KINDS: dict[str, Callable[[random.Random, bool], Pair | None]] = {
    "numbers": values_pair("numbers", number),
    "expressions": values_pair("expressions", expression),
    "branches": values_pair("branches", branching),
    "numerals": kinds.numerals,
    "far constants": kinds.far_constants,
    "inverse functions": kinds.inverse,
    "equations": relations.line,
    "inequalities": relations.inequality,
    "bare relations": relations.bare_relation,
    "collections": relations.collection,
    "notations": kinds.notation,
}


def pairs(count: int, seed: int) -> Iterator[Pair]:
    """The same number of pairs of each kind, half of them equal; each gold answer and answer once."""
    used: set[tuple[str, str]] = set()
    for kind, make in KINDS.items():
        draw = random.Random(f"{seed}/{kind}")
        for equal in (True, False):
            done = tries = 0
            while done < count // (2 * len(KINDS)) and tries < 60 * count:
                tries += 1
                pair = make(draw, equal)
                if pair is None or (pair.gold, pair.answer) in used or len(pair.answer) > 200:
                    continue
                used.add((pair.gold, pair.answer))
                done += 1
                yield pair


def strict(gold: str, answer: str) -> bool:
    sample = Sample(id="pair", messages=(), answer=gold)
    return bool(math_answer(f"<think>So.</think> <answer>{answer}</answer>", sample))


def math_verify(gold: str, answer: str) -> bool:
    return bool(sandboxed_worker().call(verify, (gold, answer), 10.0))


def measure(
    grade: Callable[[str, str], bool], cases: list[Pair]
) -> tuple[Counter[Any], list[Pair]]:
    """Errors by (kind, equal), with "refused" as a third mark for gold answers that the grader refuses; the wrong pairs."""
    counts: Counter[Any] = Counter()
    wrong = []
    for case in cases:
        try:
            right = grade(case.gold, case.answer) == case.equal
        except DataError:
            counts[case.kind, "refused"] += 1
            wrong.append(case)
            continue
        except Exception:  # an error of a foreign parser is a 0
            right = not case.equal
        if not right:
            counts[case.kind, case.equal] += 1
            wrong.append(case)
    return counts, wrong


def table(results: dict[str, Counter[Any]], cases: list[Pair]) -> list[str]:
    total = Counter((case.kind, case.equal) for case in cases)
    names = list(dict.fromkeys(case.kind for case in cases))
    lines = [
        "| kind | equal | unequal |"
        + "".join(f" {n}: missed | taken | refused |" for n in results),
        "| --- " * (3 + 3 * len(results)) + "|",
    ]
    for kind in [*names, "all"]:
        of = names if kind == "all" else [kind]
        row = [sum(total[k, e] for k in of) for e in (True, False)]
        for counts in results.values():
            row += [sum(counts[k, mark] for k in of) for mark in (True, False, "refused")]
        lines.append(f"| {kind} | " + " | ".join(map(str, row)) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--show", type=int, default=0, help="print so many wrong pairs of each grader"
    )
    args = parser.parse_args()
    start = time.perf_counter()
    cases = list(pairs(args.pairs, args.seed))
    made = time.perf_counter() - start
    results, wrong = {}, {}
    for name, grade in {"strict": strict, "math-verify": math_verify}.items():
        results[name], wrong[name] = measure(grade, cases)
    versions = ", ".join(f"{n} {version(n)}" for n in ("vlrft", "math-verify", "sympy"))
    lines = [
        "# Graders of mathematics on random pairs",
        "",
        f"`python -m benchmarks.graders random_pairs --pairs {args.pairs} --seed {args.seed}`, {versions}, Python "
        f"{platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores; {len(cases)} pairs, made in {made:.0f} s.",
        "",
        "missed: an equal answer that scores 0; taken: an unequal one that scores 1; refused: a gold answer that the grader",
        "cannot read, which preparation lists.",
        "",
        *table(results, cases),
    ]
    print("\n".join(lines))
    for name, examples in wrong.items():
        for case in examples[: args.show]:
            print(f"{name}: {case}")
    if args.out is not None:
        (args.out / "graders_random.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
