"""GeoQA: which gold answers the released grader cannot read, and where the strict grader differs
from it on a published model's outputs."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from vlrft.rewards.math_answer import answer_text, math_answer, r1v_eval

from benchmarks.graders.gold_parts import read
from benchmarks.graders.math_verify_worker import value
from benchmarks.graders.values import values
from vlrft.grading import read_math, sandboxed_worker
from vlrft.schema import Sample


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@cache
def reading(gold: str) -> str:
    """How the released grader reads a gold answer: `read`, `unread`, or `misread as 8`."""
    theirs = sandboxed_worker().call(value, (gold,), 10.0)
    if theirs is None:
        return "unread"
    own = values(read(gold, metres=True).core)
    assert own is not None, gold
    close = abs(own[0] - theirs) <= 1e-9 * abs(own[0])
    return "read" if close else f"misread as {theirs.real:g}"


def misread(folder: Path) -> dict[str, list[str]]:
    """The test's gold answers that the released grader misses, with the ids of their rows."""
    found: dict[str, list[str]] = {}
    for row in rows(folder / "geoqa_test_754.jsonl"):
        gold = row["ground_truth"]
        if (how := reading(gold)) != "read":
            found.setdefault(f"{gold}: {how}", []).append(row["id"])
    return found


def verdicts(folder: Path) -> list[str]:
    """Lines on the published outputs: both scores, and why they differ."""
    published = rows(folder / "published_outputs_qwen2vl7b_grpo.jsonl")
    missed = misread(folder)
    unread = sum(len(ids) for gold, ids in missed.items() if gold.endswith("unread"))
    strict = official = agreed = 0
    why: Counter[str] = Counter()
    example: dict[str, str] = {}
    for row in published:
        sample = Sample(id=row["id"], messages=(), answer=row["ground_truth"])
        ours, theirs = math_answer(row["output"], sample), r1v_eval(row["output"], sample)
        strict += ours == 1.0
        official += theirs == 1.0
        agreed += bool(theirs) is row["published_correct"]
        if ours != theirs:
            reason = difference(row["ground_truth"], row["output"], bool(ours))
            why[reason] += 1
            said = answer_text(row["output"])
            example.setdefault(
                reason, f"{row['id']}: gold `{row['ground_truth']}`, answer `{said}`"
            )
    n = len(published)
    return [
        f"GeoQA, {n} published outputs: strict {strict}, released grader {official} "
        f"(equal to the published verdict on {agreed}). Of {n} gold answers the released grader"
        f" cannot read {unread} and misreads {sum(map(len, missed.values())) - unread};"
        f" strict reads {sum(read_math(row['ground_truth']) is not None for row in published)}.",
        "",
        "| where the verdicts differ | outputs | one of them |",
        "| --- | --- | --- |",
        *(f"| {reason} | {count} | {example[reason]} |" for reason, count in why.most_common()),
    ]


def difference(gold: str, output: str, strict: bool) -> str:
    """Why the strict verdict is not the released one."""
    who = "strict 1, released 0" if strict else "strict 0, released 1"
    how = reading(gold)
    if how == "unread":
        return f"{who}: gold not read by the released grader"
    if how != "read":
        return f"{who}: gold misread by the released grader, a root or π dropped"
    said = answer_text(output)
    if said is None:
        return f"{who}: no complete answer, a number of the thinking was read"
    alone = r1v_eval(f" {said} ", Sample(id=gold, messages=(), answer=gold)) == 1.0
    return f"{who}: a {'part of the answer' if alone else 'number of the thinking'} was read"
