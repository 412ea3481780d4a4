"""Writes docs/reference/algorithms.md from the docstrings of the code: `python docs/algorithms.py`."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast, get_args

from vlrft.advantages import ESTIMATORS, STEPS
from vlrft.algorithms import ALGORITHMS, Algorithm
from vlrft.config.field_docs import field_docs
from vlrft.objectives import Reduction, token_weights
from vlrft.objectives.find import OBJECTIVES
from vlrft.objectives.regularizer import Regularizer

PAGE = Path(__file__).parent / "reference" / "algorithms.md"
HEAD = """# Algorithms

This page is generated from the docstrings of the code (`make docs`). `vlrft show ALGORITHM` prints one of them, and a config overrides
any key: `algorithm: {name: gmpo, objective: {clip_high: 0.3}}`. [Write an algorithm](../howto/algorithm.md) explains the parts.

Axes: g groups (P of them in a step, P_valid whose rewards differ), i rollouts, t action tokens; μ_g, σ_g a group's mean
and unbiased standard deviation; ρ the ratio of the policy to the one that sampled.
"""
NEEDS = {
    "old_logprobs": "old log-probs",
    "ref_logprobs": "reference log-probs",
    "entropy": "entropy's gradient",
    "group_stats": "group statistics",
    "zero_signal_groups": "all groups",
}
NEEDS_NOTE = """
The last column lists what is computed in addition to log-probs. *Old log-probs* are free with one update per batch; *group statistics*
take a pass without gradients when a group is split over micro-batches; *all groups*: groups whose rewards are all equal are trained on
too.
"""
OBJECTIVES_NOTE = """An algorithm's objective is one of these with its settings; `objective: {name: quadratic, epsilon: 0.1}` takes another one in its
place, by a name below or by `./file.py:Class`. An objective may ask for its own reduction and advantages: see the algorithm that has it."""
STEPS_NOTE = """`advantage` is the name of an estimator above, or a list of steps: `advantage: [{step: centre}, {step: scale}]`."""
EQUATION = re.compile(r"\S+(\([^)]*\))? = |[ℓL]_?\S* ")  # how the first line of an equation begins


def page() -> str:
    """The page's Markdown."""
    parts = [HEAD, "## At a glance\n", *_overview(), NEEDS_NOTE, "## The algorithms\n"]
    for algorithm in ALGORITHMS.values():
        parts += [f"### {algorithm.name}\n", f"{algorithm.doc}\n", *_settings(algorithm)]
    parts.append("\n## Objectives\n")
    parts.append(f"{OBJECTIVES_NOTE}\n")
    for name, kind in OBJECTIVES.items():
        parts += _class(kind, "Objective", f"`objective: {name}`")
    parts += ["## Regularisers of any algorithm: `regularize`\n", *_class(Regularizer, "Class")]
    parts += ["## Reductions\n", _code(inspect.getdoc(token_weights) or ""), ""]
    parts.append(f"Names: {', '.join(f'`{name}`' for name in get_args(Reduction))}.\n")
    parts += ["## Advantage estimators\n", "| name | equation | |", "| --- | --- | --- |"]
    parts += [f"| `{e.name}` | {_cell(e.equation)} | {_cell(e.doc)} |" for e in ESTIMATORS.values()]
    parts.append(f"\n## Steps of an advantage estimator\n\n{STEPS_NOTE}\n")
    for name, step in STEPS.items():
        parts += _class(cast("type[Any]", step), "Step", f"`{{step: {name}}}`")
    return "\n".join(parts).rstrip() + "\n"


def _overview() -> Iterator[str]:
    yield "| algorithm | advantage | reduction | keeps | also computes |"
    yield "| --- | --- | --- | --- | --- |"
    for a in ALGORITHMS.values():
        needs = [words for name, words in NEEDS.items() if getattr(a.needs, name)]
        if a.estimator.greedy:
            needs.append("a greedy answer per prompt")
        cells = (a.estimator.name, a.reduction, type(a.keep).__name__, ", ".join(needs))
        yield f"| [`{a.name}`](#{a.name}) | " + " | ".join(map(_cell, cells)) + " |"


def _settings(algorithm: Algorithm) -> Iterator[str]:
    yield "| | |"
    yield "| --- | --- |"
    for key, value in algorithm.describe().items():
        if key == "objective":
            name = type(algorithm.objective).__name__
            yield f"| objective | [`{name}`](#objective-{name.lower()}): `{_cell(value)}` |"
        elif key not in ("doc", "notes"):
            yield f"| {key} | {_cell(value)} |"
    yield f"\n{algorithm.notes}\n" if algorithm.notes else ""


def _class(kind: type[Any], title: str, usage: str = "") -> Iterator[str]:
    """A class with its name in a config, its docstring, equations as code, and its settings."""
    yield f"### {title} {kind.__name__}\n"
    yield f"{usage}\n" if usage else ""
    for paragraph in (inspect.getdoc(kind) or "").split("\n\n"):
        yield f"{_code(paragraph) if EQUATION.match(paragraph) else paragraph}\n"
    docs = field_docs(kind)
    for field in dataclasses.fields(kind):
        doc = " ".join(docs.get(field.name, "").split())
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        value = "" if default is dataclasses.MISSING else f" = `{default!r}`"
        yield f"- `{field.name}`{value}" + (f": {doc}" if doc else "")
    yield ""


def _code(text: str) -> str:
    return "```text\n" + text + "\n```"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
