"""GeoQA: the gold answers that the released grader cannot read, and the outputs of a published model on
which the strict grader differs from it."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from vlrft.rewards.math_answer import answer_text, math_answer, r1v_eval

from benchmarks.graders.gold_parts import parse_gold
from benchmarks.graders.math_verify_worker import parse_value
from benchmarks.graders.values import values
from vlrft.grading import read_math, sandboxed_worker
from vlrft.schema import Sample


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@cache
def classify_reading(gold: str) -> str:
    """How the released grader reads a gold answer: `read`, `unread`, or `misread as 8`."""
    theirs = sandboxed_worker().call(parse_value, (gold,), 10.0)
    if theirs is None:
        return "unread"
    expected = values(parse_gold(gold, metres=True).core)
    assert expected is not None, gold
    close = abs(expected[0] - theirs) <= 1e-9 * abs(expected[0])
    return "read" if close else f"misread as {theirs.real:g}"


def find_misread(folder: Path) -> dict[str, list[str]]:
    """The gold answers of the test split that the released grader cannot read or misreads, with the ids of their rows."""
    ids: dict[str, list[str]] = {}
    for row in read_rows(folder / "geoqa_test_754.jsonl"):
        gold = row["ground_truth"]
        if (how := classify_reading(gold)) != "read":
            ids.setdefault(f"{gold}: {how}", []).append(row["id"])
    return ids


def compare_verdicts(folder: Path) -> list[str]:
    """The page's section on the published outputs: both graders' counts, and why they differ."""
    published = read_rows(folder / "published_outputs_qwen2vl7b_grpo.jsonl")
    missed = find_misread(folder)
    unread = sum(len(ids) for gold, ids in missed.items() if gold.endswith("unread"))
    strict = official = agreed = 0
    reasons: Counter[str] = Counter()
    example: dict[str, str] = {}
    for row in published:
        sample = Sample(id=row["id"], messages=(), answer=row["ground_truth"])
        ours, theirs = math_answer(row["output"], sample), r1v_eval(row["output"], sample)
        strict += ours == 1.0
        official += theirs == 1.0
        agreed += bool(theirs) is row["published_correct"]
        if ours != theirs:
            reason = explain_difference(row["ground_truth"], row["output"], bool(ours))
            reasons[reason] += 1
            answer = answer_text(row["output"])
            example.setdefault(
                reason, f"{row['id']}: gold answer `{row['ground_truth']}`, answer `{answer}`"
            )
    n = len(published)
    return [
        f"GeoQA, {n} published outputs: strict {strict}, released grader {official} "
        f"(equal to the published verdict on {agreed}). Of {n} gold answers the released grader"
        f" cannot read {unread} and misreads {sum(map(len, missed.values())) - unread};"
        f" strict reads {sum(read_math(row['ground_truth']) is not None for row in published)}.",
        "",
        "| why the verdicts differ | outputs | example |",
        "| --- | --- | --- |",
        *(f"| {reason} | {count} | {example[reason]} |" for reason, count in reasons.most_common()),
    ]


def explain_difference(gold: str, output: str, strict: bool) -> str:
    """Why the strict verdict differs from the released one."""
    verdicts = "strict 1, released 0" if strict else "strict 0, released 1"
    how = classify_reading(gold)
    if how == "unread":
        return f"{verdicts}: gold answer not read by the released grader"
    if how != "read":
        return f"{verdicts}: gold answer misread by the released grader, a root or π dropped"
    answer = answer_text(output)
    if answer is None:
        return f"{verdicts}: no complete answer, a number in the thinking was read"
    alone = r1v_eval(f" {answer} ", Sample(id=gold, messages=(), answer=gold)) == 1.0
    return f"{verdicts}: a {'part of the answer' if alone else 'number in the thinking'} was read"
