"""How often graders of mathematics are wrong, on equal and unequal variants of the gold answers of six published sets.

    python -m benchmarks.graders errors DATA [--out benchmarks/results]

DATA holds `math_eval/*.jsonl` (`answer`) and `geoqa/*.jsonl` (`ground_truth`, and a published model's
outputs with the released grader's verdicts). Each distinct gold answer is graded against itself,
against rewritings that keep its value (a 0 is a false negative) and against near-misses (a 1 is a
false positive); see variants.py. The pairs of by_hand.yaml and unseen.yaml are two further sets. Every
grader gets the answer in the form that it requires. Prints the tables, writes them to graders.md and
all counts to graders_DATE.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from vlrft.rewards import math_answer as rewards

from benchmarks.graders.geoqa import compare_verdicts, find_misread
from benchmarks.graders.gold_parts import parse_gold
from benchmarks.graders.math_verify_worker import verify
from benchmarks.graders.paired import read_pairs
from benchmarks.graders.variants import near_misses, rewritings
from vlrft.grading import sandboxed_worker
from vlrft.schema import DataError, Sample

SETS = {"by hand": read_pairs("by_hand"), "unseen": read_pairs("unseen")}

Grade = Callable[[str, str], float | None]  # gold answer, answer -> score


class Case(NamedTuple):
    """One answer to compare with one gold answer."""

    data: str
    gold: str
    kind: str
    answer: str
    right: bool  # whether it should pass


def cases(folder: Path) -> Iterator[Case]:
    """Every variant of every distinct gold answer, data set by data set."""
    for path in [
        *sorted((folder / "math_eval").glob("*.jsonl")),
        folder / "geoqa" / "geoqa_test_754.jsonl",
    ]:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        answers = [row.get("answer", row.get("ground_truth")) for row in rows]
        texts = dict.fromkeys(_text(a[0] if isinstance(a, list) else a) for a in answers)
        for text in texts:
            gold = parse_gold(text, metres="ground_truth" in rows[0])
            for kind, answer in dict.fromkeys(rewritings(gold)):
                yield Case(path.stem, text, kind, answer, True)
            for kind, answer in dict.fromkeys(near_misses(gold)):
                yield Case(path.stem, text, kind, answer, False)


def cases_by_hand(name: str) -> list[Case]:
    """The pairs of a set of SETS."""
    return [
        Case(name, gold, kind, answer, right)
        for pairs, right in zip(SETS[name], (True, False), strict=True)
        for kind, kind_pairs in pairs.items()
        for gold, answer in kind_pairs
    ]


def _text(answer: str | float) -> str:
    return answer.strip() if isinstance(answer, str) else f"{answer:g}"


def graders() -> dict[str, Grade]:
    """The graders by name; each takes a gold answer and an answer."""

    def reward(function: Any, form: str) -> Grade:
        return lambda gold, answer: function(
            form.replace("ANSWER", answer), Sample(id=gold, messages=(), answer=gold)
        )

    tag, box = "<think>So.</think> <answer> ANSWER </answer>", "So it is $\\boxed{ANSWER}$."
    return {
        "strict": reward(rewards.math_answer, tag),
        "math-verify": lambda gold, answer: sandboxed_worker().call(verify, (gold, answer), 10.0),
        "r1v": reward(rewards.r1v, tag),
        "r1v_eval": reward(rewards.r1v_eval, tag),
        "open_r1": reward(rewards.open_r1, box),
        "lighteval": reward(rewards.lighteval, box),
        "mathruler": reward(rewards.mathruler, box),
        "dr_grpo": reward(rewards.dr_grpo, box),
    }


def measure(grade: Grade, all_cases: list[Case]) -> dict[str, Any]:
    """Count the grader's errors by data set and kind, and measure its speed."""
    wrong: Counter[tuple[str, str, bool]] = Counter()
    examples: list[Case] = []
    refused: set[str] = set()
    grade("1", "1")  # starts the worker process
    start = time.perf_counter()
    for case in all_cases:
        try:
            right = bool(grade(case.gold, case.answer))
        except DataError:
            refused.add(case.gold)
            continue
        if right != case.right:
            wrong[case.data, case.kind, case.right] += 1
            examples.append(case)
    seconds = time.perf_counter() - start
    return {
        "answers_per_second": round(len(all_cases) / seconds),
        "refused_golds": sorted(refused),
        "wrong": [[*key, n] for key, n in sorted(wrong.items())],
        "examples": [case._asdict() for case in examples[:: max(1, len(examples) // 40)]],
    }


def share(n: int, total: int) -> str:
    return f"{n} / {total} = {100 * n / total:.2f} %" if total else "-"


def tables(results: dict[str, dict[str, Any]], all_cases: list[Case]) -> list[str]:
    """Two tables: errors by grader, and by kind and grader."""
    count = Counter((case.kind, case.right) for case in all_cases)
    lines = [*summary(results, all_cases)]
    lines += ["", "Errors by kind:", "", f"| kind | answers | {' | '.join(results)} |"]
    lines.append("| --- " * (len(results) + 2) + "|")
    for (kind, right), total in sorted(count.items(), key=lambda item: (not item[0][1], item[0])):
        row = [
            sum(n for _, k, r, n in result["wrong"] if (k, r) == (kind, right))
            for result in results.values()
        ]
        name = kind if right else f"*{kind}*"
        lines.append(f"| {name} | {total} | {' | '.join(map(str, row))} |")
    return lines


def summary(results: dict[str, dict[str, Any]], all_cases: list[Case]) -> list[str]:
    """The table by grader."""
    equal, unequal = (sum(case.right is right for case in all_cases) for right in (True, False))
    lines = [
        "| grader | false negatives | false positives | gold answers refused | answers / s |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, result in results.items():
        missed, passed = (
            sum(n for *_, r, n in result["wrong"] if r is right) for right in (True, False)
        )
        lines.append(
            f"| `{name}` | {share(missed, equal)} | {share(passed, unequal)} "
            f"| {len(result['refused_golds'])} | {result['answers_per_second']} |"
        )
    return lines


def write(
    data: Path,
    out: Path,
    all_cases: list[Case],
    results: dict[str, dict[str, Any]],
    by_hand: dict[str, dict[str, dict[str, Any]]],
) -> list[str]:
    """Write the page and the raw counts; return the page's lines."""
    setting = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[2]:.1f},"
        f" Python {platform.python_version()}",
        **{name: version(name) for name in ("math-verify", "sympy", "mpmath")},
    }
    distinct = len({(case.data, case.gold) for case in all_cases})
    lines = [
        "# Graders of mathematics",
        "",
        f"`python -m benchmarks.graders errors DATA`, {', '.join(f'{k} {v}' for k, v in setting.items())}.",
        "",
        f"{distinct} distinct gold answers of AIME24, AMC, MATH500, Minerva, OlympiadBench and GeoQA,"
        f" {len(all_cases)} answers. Italic kinds are near-misses, which must not pass. A refused gold"
        f" answer raises; the answers to it count as neither right nor wrong. The strict grader was"
        f" corrected on these variants while it was written: its results here are no estimate of its"
        f" errors on notations that it has not met.",
        "",
        *tables(results, all_cases),
        "",
        "## Pairs by hand",
        "",
        "Gold answers with answers as models write them. The strict grader was corrected on the first"
        " set, not on the second, which is therefore the estimate for it. Pairs of a refused gold"
        " answer count as neither right nor wrong.",
        "",
        *(
            line
            for name, of_set in by_hand.items()
            for line in (f"`{name}`:", "", *summary(of_set, cases_by_hand(name)), "")
        ),
        "## Published outputs",
        "",
        *compare_verdicts(data / "geoqa"),
    ]
    out.mkdir(parents=True, exist_ok=True)
    (out / "graders.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    raw = {
        "setting": setting,
        "answers": len(all_cases),
        "graders": results,
        "by_hand": by_hand,
        "geoqa_misread": find_misread(data / "geoqa"),
    }
    (out / f"graders_{setting['date']}.json").write_text(
        json.dumps(raw, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results")
    args = parser.parse_args()
    all_cases = list(cases(args.data))
    by_hand = {
        name: {grader: measure(grade, cases_by_hand(name)) for grader, grade in graders().items()}
        for name in SETS
    }
    results = {name: measure(grade, all_cases) for name, grade in graders().items()}
    print("\n".join(write(args.data, args.out, all_cases, results, by_hand)))
