"""Hostile answers to every grader: none raises, none takes long, and no strict grader pays for one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.campaign.case import Finding, Kind, Plan, Result
from benchmarks.campaign.in_child import call_in_child
from vlrft.testing.hostile_texts import hostile_answer, hostile_text, mutate

SLOW = 2.0  # seconds of processor time in this process, for one call on a machine that does other work too
BATCH = 150
GOLDS: Mapping[str, tuple[tuple[Any, Mapping[str, str]], ...]] = {
    "math_answer": tuple(
        (gold, {"answer": "math"})
        for gold in (
            *("7349.25", "\\frac{8317}{4409}", "x^2+83y", "(17, 83)", "[17, 83)", "\\sqrt{8317}", "|x-83|"),
            *("\\{17, 83, 91\\}", "x \\in [17, 83]", "8317\\text{ cm}", "\\begin{pmatrix}17\\\\83\\end{pmatrix}"),
            *("\\lfloor 83x\\rfloor", "x=17\\text{ or }x=83", "8317\\%", "83\\pi", "83^{17}", "p \\approx 83.17"),
        )
    ),
    "boxes": (((113, 217, 611, 729), {"answer": "box"}),),
    "choice": (
        ("persian cat", {"answer": "choice"}),
        ("Q", {"answer": "choice", "options": "\n".join(f"option {k}" for k in range(20))}),
    ),
    "classname": (("red-winged blackbird", {"answer": "choice"}),),
    "count": ((8317, {"answer": "count"}),),
    "point": (((113, 217, 117, 221), {"answer": "point"}),),
    "temporal_iou": (((113.5, 117.25), {"answer": "segment"}),),
    "text_overlap": (("zygomorphic quokkas", {"answer": "text"}),),
    "countdown": (({"nums": [83, 17, 91], "target": 8317}, {"answer": "countdown"}),),
}  # fmt: skip
BOXES = (([[113, 217, 611, 729]], {"answer": "boxes"}),)
OF_BOXES = (
    "boxes.detected",
    "boxes.matched",
    "boxes.visual_rft_confidence",
    "boxes.visual_rft_iou",
)
UNRELATED: Any = ("8317", {})


def draw(random: Random) -> Plan:
    from vlrft.plugins.find import reward_names

    name = random.choice(sorted(reward_names()))
    gold = random.randrange(len(golds_of(name)))
    return {
        "grader": name,
        "gold": gold,
        "seed": random.getrandbits(32),
        "limit": random.choice((200, 2000, 2000, 20_000, 200_000, 10_000_000)),
    }


def golds_of(name: str) -> Sequence[tuple[Any, Mapping[str, str]]]:
    """Gold answers with their tags to which the grader applies."""
    return BOXES if name in OF_BOXES else GOLDS.get(name.partition(".")[0], (UNRELATED,))


def texts(plan: Plan) -> Iterator[str]:
    """The plan's own completions, or random ones."""
    if "texts" in plan:
        yield from plan["texts"]
        return
    random = Random(plan["seed"])
    for _ in range(max(3, min(BATCH, 2_000_000 // plan["limit"]))):
        yield hostile_answer(random, plan["limit"])
    for _ in range(20):
        yield mutate(random, f"<think>so</think><answer>{hostile_text(random, 40)}</answer>")


def grade(plan: Plan) -> list[tuple[str, str]]:
    """The findings of one grader on the plan's texts, as (outcome, text)."""
    from vlrft.plugins.find import find_grader
    from vlrft.schema import DataError, Sample

    name = plan["grader"]
    gold, tags = golds_of(name)[plan["gold"]]
    sample = Sample(id="case", messages=(), answer=gold, tags=tags)
    grader: Callable[..., Any] = find_grader(name)
    strict = "." not in name and name not in ("format", "length")
    found = []
    for text in texts(plan):
        begin = time.process_time()
        try:
            score = grader(text, sample)
        except DataError as e:
            found.append(("unclear", f"{name} raises DataError: {e}"[:300]))
            break
        except Exception as e:
            found.append(
                ("unclear", f"{name} raises {type(e).__name__}: {e!s:.100} on {text[:80]!r}")
            )
            continue
        seconds = time.process_time() - begin
        if score is None:
            found.append(("unclear", f"{name} does not apply to the gold answer {gold!r}"))
            break
        if seconds > SLOW:
            found.append(
                (
                    "unclear",
                    f"{name} takes {seconds:.1f} s for {len(text):,} characters {text[:60]!r}",
                )
            )
        paid = max(score.values()) if isinstance(score, Mapping) else score
        if strict and paid and str(gold) not in text:
            found.append(("wrong", f"{name} pays {paid} for {text[:200]!r}, gold {gold!r}"))
    return found


def run(plan: Plan, folder: Path) -> Result:
    found, ended = call_in_child(lambda: grade(plan), folder)
    if found is None:
        line = ended.err.strip().splitlines()[-1:] or [""]
        text = f"{plan['grader']}: ends with {ended.code}: {line[0]}"
        return Result(findings=(Finding(outcome="unclear", text=text),))
    findings = tuple(Finding(outcome=outcome, text=text) for outcome, text in found)
    return Result(findings=findings, trials=sum(1 for _ in texts(plan)))


ANSWERS = Kind(
    name="answers",
    doc="hostile completions to every strict and released grader",
    draw=draw,
    run=run,
    share=1.5,
    trains=False,
)
