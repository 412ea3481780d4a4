"""The parts that `thinking` adds to the page of its runs: the first and last ten steps, the answers after changed steps, curves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.learning.curves import draw_curves, mean_curves
from benchmarks.learning.outcomes import Case
from benchmarks.learning.steps_use import Use

PANELS = {
    "reward/count": "share of right answers",
    "length/mean": "tokens of a completion",
    "reward/format": "share of well-formed completions",
}
NUMBERS = {
    "reward/count": ("right, %", 100.0),
    "groups/solved_none": ("no rollout right, %", 100.0),
    "groups/valid_share": ("groups with a signal, %", 100.0),
    "reward/format": ("well-formed, %", 100.0),
    "length/mean": ("tokens", 1.0),
    "entropy": ("entropy, nats", 1.0),
}
Curves = Mapping[str, list[float]]


def steps_table(curves: Mapping[str, Curves]) -> list[str]:
    """A line for each run: each number over its first and over its last ten steps."""
    lines = [
        f"| run | {' | '.join(title for title, _ in NUMBERS.values())} |",
        f"| --- |{' ---: |' * len(NUMBERS)}",
    ]
    for run, by_name in curves.items():
        cells = [
            f"{factor * by_name[name][0]:.3g} → {factor * by_name[name][-1]:.3g}"
            for name, (_, factor) in NUMBERS.items()
        ]
        lines.append(f"| {' | '.join([run, *cells])} |")
    return lines


def use_table(uses: Mapping[str, Mapping[str, Use]]) -> list[str]:
    """A line for each policy and change of the steps."""
    lines = [
        "| policy | steps | n | right | as by itself | as the steps say |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for policy, kinds in uses.items():
        for kind, use in kinds.items():
            expected = "-" if use.expected is None else f"{100 * use.expected:.1f}"
            cells = [policy, kind, str(use.n), f"{100 * use.right:.1f}", f"{100 * use.same:.1f}"]
            lines.append(f"| {' | '.join([*cells, expected])} |")
    return lines


def describe_run(case: Case) -> str:
    return f"{case.family}, seed {case.seed}, {'permuted' if case.control else 'real'} rewards"


def extend_page(
    page: Path, runs: Mapping[Case, Path], uses: Mapping[str, Mapping[str, Use]], scenes: int
) -> None:
    """Adds to the files that `write_results` wrote. `page`: without its suffix; `scenes`: of which the uses are."""
    curves = {describe_run(case): mean_curves(run, NUMBERS) for case, run in runs.items()}
    page.with_suffix(".svg").write_text(draw_curves(runs, PANELS))
    content: dict[str, Any] = json.loads(page.with_suffix(".json").read_text())
    content["uses"] = {
        name: {kind: asdict(use) for kind, use in kinds.items()} for name, kinds in uses.items()
    }
    content["curves"] = curves  # means of ten steps each
    page.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")
    text = f"""
## While it learns

Rollouts at temperature 1 on training scenes, first ten steps → last ten steps. A group of eight in which no rollout is right is one that
pass@8 does not reach.

{_joined(steps_table(curves))}

![right answers, length and form over the steps of RL]({page.name}.svg)

## The steps, changed

Greedy answers to the first {scenes} test scenes (the table on top has every other one of twice as many), where the policy writes steps and an answer by itself; it continues from the changed
text. In percent: right; equal to the answer that it gave by itself; equal to the number that the changed steps lead to. Of shuffled digits
that is the last number; without the last step, the product before it; after a first product that is three times as much, the policy writes the other steps itself, and the number is
three times as much, too (last digits only). Where all steps are removed, an answer that the policy leaves empty is wrong; the table on top
has its answers to the question without steps.

{_joined(use_table(uses))}
"""
    with page.with_suffix(".md").open("a") as file:
        file.write(text)


def _joined(lines: list[str]) -> str:
    return "\n".join(lines)
