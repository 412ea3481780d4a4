"""For each part of a system, a version of it that is wrong in one place, and the check that rejects it.

A part is `algorithm NAME`, `step NAME`, `select NAME` or `row`, for what is a row's own beside its algorithm. Wrong steps and
objectives stand beside their references (tests/advantages/step_mutants.py, tests/objectives/mutants.py), wrong rows beside their
checks (rows_*.py); here are algorithms whose wrong version is a setting, and selectors. `python -m tests.systems.mutations` writes benchmarks/results/mutations.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.advantages import step_mutants
from tests.objectives import mutants as objective_mutants
from tests.systems import rows_drawn, rows_paid, rows_timed, rows_weighed
from tests.systems.mutant import Mutant
from vlrft.advantages import STEPS
from vlrft.algorithms import Algorithm
from vlrft.config.load import load_config
from vlrft.config.systems import System, all_systems
from vlrft.selection.rollout_filters import SELECTORS, Gfpo, Selector, chain_of
from vlrft.trainer.stage_settings import find_choices

PAGE = Path(__file__).parents[2] / "benchmarks" / "results" / "mutations.md"
HEAD = """# Wrong versions that the tests reject

Written by `python -m tests.systems.mutations` from the catalogue and the tests. For each system that runs, a version of its own part that
is wrong in one place: the named test compares it with a slow formula or a small case and must fail by an assertion. This measures the
tests, not the methods. {covered} of {all} systems that run have one, and each is rejected.

| system | part | the wrong version | rejected by |
| --- | --- | --- | --- |
"""
FORMULA = "tests/systems/test_mutations.py: the paper's formula, value and gradient"
STEP = "tests/advantages/test_step_references.py: the step's formula on 40 ragged steps"
OBJECTIVE = "tests/objectives/test_zoo.py: the paper's formula, value and gradient"
ROW = "tests/systems/test_rows.py: "
CHOICE = "tests/systems/test_mutations.py: the rollouts that it keeps of a group"

SETTINGS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "grpo": ({"advantage": "centred"}, "rewards are not divided by the group's deviation"),
    "gpg": ({"objective": {"alpha": False}}, "without α"),
    "gmpo": ({"objective": {"name": "clipped_ratio"}}, "the arithmetic mean of the ratios"),
    "gspo": ({"objective": {"name": "clipped_ratio"}}, "a ratio of each token"),
    "gvpo": ({"objective": {"var": False}}, "without Var"),
    "dr_grpo": ({"reduction": "sequence"}, "divided by the answer's own length"),
    "dapo": ({"objective": {"clip_high": 0.2}}, "the upper bound is the lower one"),
    "dpo": ({"advantage": "standardised"}, "all rollouts in place of best and worst"),
    "raft": ({"advantage": "centred"}, "rewards less their mean"),
    "gigpo": ({"advantage": "centred"}, "rewards are not divided by the group's deviation"),
}
"""Algorithm -> settings that make it wrong, and in words what is."""
WRONG_CHOICES: Mapping[str, tuple[Selector, str]] = {
    "gfpo": (Gfpo(keep=2, by="length"), "the shortest, whatever their rewards"),
    "cppo": (Gfpo(keep=2, by="reward_per_token"), "by reward, not by |advantage|"),
}
"""Selector -> the one in its place, and in words what is wrong."""
SHARED = {
    "algorithm grpo": 124,
    "algorithm gpg": 106,
    "algorithm gspo": 109,
    "algorithm dapo": None,
    "algorithm dpo": 183,
}
"""Algorithms of many systems -> whose own they are; None: of one that has no row."""
ROWS: Mapping[int, Mutant] = {
    **rows_paid.ROWS,
    **rows_weighed.ROWS,
    **rows_drawn.ROWS,
    **rows_timed.ROWS,
}
"""Rows whose own part is not their algorithm's."""
WITHOUT: Mapping[int, str] = {
    42: "its config is that of 20, whose wrong version is rejected",
    68: "its config is GRPO with rewards of your own: the rules and judges that are its part are what it lacks",
    92: "its config is the shipped GeoQA recipe of GRPO: the gold answers with dropped thoughts that are its part are what it lacks",
    99: "its config is empty: a prompt is always packed once, which tests/policy compares with one row per completion",
    174: "its algorithm is DPO, 183's; the reset of its reference has none",
}
"""Rows that have nothing of their own which could be wrong, and why."""
PLAIN = {"centre", "scale", "combine"}  # steps of many systems that are none's own


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """A wrong version of a part, and the test that rejects it."""

    part: str
    wrong: str
    test: str


@cache
def all_mutations() -> Mapping[str, Mutation]:
    """Part -> its wrong version."""
    found = [
        *(_of_step(name) for name in step_mutants.MUTANTS),
        *(_of_objective(name) for name in objective_mutants.MUTANTS),
        *(Mutation(part=f"algorithm {n}", wrong=w, test=FORMULA) for n, (_, w) in SETTINGS.items()),
        *(
            Mutation(part=f"select {n}", wrong=w, test=CHOICE)
            for n, (_, w) in WRONG_CHOICES.items()
        ),
    ]
    return {m.part: m for m in found}


def _of_step(name: str) -> Mutation:
    _, mutant = step_mutants.MUTANTS[name]
    if isinstance(mutant, str) and mutant.startswith(step_mutants.HERE):
        wrong = _said(step_mutants, mutant.removeprefix(step_mutants.HERE))
    elif isinstance(mutant, str):
        wrong = f"`{mutant}` in its place"
    else:
        wrong = f"`{', '.join(f'{k}: {v}' for k, v in mutant.items())}`"
    return Mutation(part=f"step {name}", wrong=wrong, test=STEP)


def _said(module: object, name: str) -> str:
    """The class's docstring; its name in words where it has none of its own."""
    text = getattr(module, name).__doc__ or ""
    if not text or text.startswith(f"{name}("):  # a dataclass's
        text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()
    return " ".join(text.split()).rstrip(".")


def _of_objective(name: str) -> Mutation:
    wrong = _said(objective_mutants, objective_mutants.MUTANTS[name])
    return Mutation(part=f"algorithm {name}", wrong=wrong, test=OBJECTIVE)


@cache
def parts_of(number: int) -> list[str]:
    """The own parts of a system, the most particular first; its algorithm as a whole last."""
    config = load_config(f"system:{number}")
    chosen = find_choices(config)
    steps, selectors, names = list[str](), list[str](), list[str]()
    for stage, (algorithm, _) in zip(config.stages, chosen, strict=True):
        steps += _steps(algorithm)
        kinds = [type(s) for s in chain_of(algorithm.select)]
        selectors += [f"select {n}" for n, kind in SELECTORS.items() if kind in kinds]
        name = stage.algorithm if isinstance(stage.algorithm, str) else algorithm.name
        names.append(f"algorithm {name.partition(' ')[0]}")
    losses = [n for n in reversed(names) if n != "algorithm sft"]
    new = [n for n in losses if n.removeprefix("algorithm ") in objective_mutants.MUTANTS]
    return [*new, *selectors, *steps, *losses]


def _steps(algorithm: Algorithm) -> list[str]:
    named = {kind: name for name, kind in STEPS.items()}
    names = [named.get(type(step), "") for step in algorithm.estimator.steps]
    return [f"step {name}" for name in names if name and name not in PLAIN]


def mutation_of(system: System) -> Mutation | None:
    """The wrong version of the system's most particular part that has one."""
    mutations = all_mutations()
    return next((mutations[part] for part in parts_of(system.id) if part in mutations), None)


def own_mutation(system: System) -> Mutation | None:
    """That of the row itself, else as `mutation_of`; None where it is that of another system's algorithm, which this one merely
    uses."""
    if system.id in ROWS:
        mutant = ROWS[system.id]
        said = (mutant.check.__doc__ or mutant.check.__name__.replace("_", " ")).split("\n")[0]
        return Mutation(part="row", wrong=mutant.wrong, test=ROW + said.rstrip("."))
    mutation = mutation_of(system)
    if mutation is None or SHARED.get(mutation.part, system.id) != system.id:
        return None
    return mutation


def page() -> str:
    """The page's Markdown."""
    running = [s for s in all_systems().values() if s.runs]
    own = {s.id: m for s in running if (m := own_mutation(s))}
    cells = [
        (f"{s.id} {s.name}", own[s.id].part, own[s.id].wrong, own[s.id].test)
        for s in running
        if s.id in own
    ]
    lines = ["| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in cells]
    text = HEAD.format(covered=len(own), all=len(running)) + "\n".join(lines) + "\n"
    others = [f"- {s.id} {s.name}: {WITHOUT[s.id]}." for s in running if s.id not in own]
    return text + NOTE + "\n".join(others) + "\n"


NOTE = """
Without a wrong version of their own:

"""

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
