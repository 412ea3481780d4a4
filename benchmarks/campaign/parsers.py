"""Hostile texts and mutated good ones to every reader of text: only documented errors, of one line each, soon."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

from benchmarks.campaign.case import Finding, Kind, Plan, Result
from benchmarks.campaign.in_child import call_in_child
from benchmarks.campaign.outcome import without_details
from vlrft.testing.hostile_parsing import PARSERS, try_parser
from vlrft.testing.hostile_texts import hostile_text, mutate

BATCH = 300
SLOW = 2.0  # seconds of processor time for one text


def draw(random: Random) -> Plan:
    return {"parser": random.choice(sorted(PARSERS)), "seed": random.getrandbits(32)}


def texts(plan: Plan) -> list[bytes]:
    """The plan's own texts, or random ones: half of them hostile, half good ones with mutations."""
    if "texts" in plan:
        return [text.encode("utf-8", "surrogatepass") for text in plan["texts"]]
    random = Random(plan["seed"])
    examples = PARSERS[plan["parser"]].examples
    found = []
    for k in range(BATCH):
        if k % 2:
            text = mutate(random, random.choice(examples))
        else:
            text = hostile_text(random, random.choice((100, 2000, 20_000)))
        found.append(text.encode("utf-8", "surrogatepass"))
    return found


def parse_all(plan: Plan) -> list[str]:
    """The problems of the plan's texts, each kind of problem once, with the first text that has it."""
    name, problems = plan["parser"], dict[str, str]()
    try_parser(PARSERS[name], PARSERS[name].examples[0].encode())  # imports are not timed
    for content in texts(plan):
        begin = time.process_time()
        problem = try_parser(PARSERS[name], content)
        seconds = time.process_time() - begin
        if problem:
            problems.setdefault(without_details(problem), f"{name}: {problem} on {content[:80]!r}")
        if seconds > SLOW:
            text = f"{name}: {seconds:.1f} s for {len(content)} bytes {content[:60]!r}"
            problems.setdefault("slow", text)
    return list(problems.values())


def run(plan: Plan, folder: Path) -> Result:
    name = plan["parser"]
    problems, ended = call_in_child(lambda: parse_all(plan), folder)
    if problems is None:
        line = ended.err.strip().splitlines()[-1:] or [""]
        problems = [f"{name}: ends with {ended.code}: {line[0]}"]
    findings = tuple(
        Finding(outcome="wrong" if "control tokens" in p else "unclear", text=p) for p in problems
    )
    return Result(findings=findings, trials=len(texts(plan)))


PARSING = Kind(
    name="parsers",
    doc="random and mutated texts to the readers of answers, mathematics, boxes, YAML, tables and chats",
    draw=draw,
    run=run,
    share=0.7,
    trains=False,
)
