"""Parts of an algorithm that do not go together, and rewards that its estimator reads and the task does not have.

An objective may say with which reductions (`reductions`) and after which last step of the estimator (`last_steps`) it is what its
docstring says; a step, which components of the reward it reads (`components`).
"""

from __future__ import annotations

from collections.abc import Sequence

from vlrft.advantages import STEPS
from vlrft.algorithms import Algorithm
from vlrft.objectives.find import OBJECTIVES
from vlrft.plugins.names import did_you_mean
from vlrft.rollout.task import LoadedTask
from vlrft.selection.prompt_strategies import PromptStrategy
from vlrft.selection.rollout_filters import FixedSize, chain_of

ENVIRONMENT = "environment"  # the component that is no reward of the task


def find_unfit_parts(algorithm: Algorithm, at: str) -> list[str]:
    """Parts that the objective does not go with, one line each. `at`: the stage's key in the config."""
    objective, mistakes = algorithm.objective, list[str]()
    name = next((n for n, kind in OBJECTIVES.items() if type(objective) is kind), "")
    reductions: tuple[str, ...] = getattr(objective, "reductions", ())
    if reductions and algorithm.reduction not in reductions:
        mistakes.append(
            f"{at}.algorithm.reduction: {algorithm.reduction}, but the objective {name} is a term of whole groups: use "
            f"reduction: {' or '.join(reductions)}"
        )
    last_steps: tuple[str, ...] = getattr(objective, "last_steps", ())
    kinds = tuple(kind for n in last_steps if isinstance(kind := STEPS[n], type))
    steps = algorithm.estimator.steps
    if last_steps and not (steps and isinstance(steps[-1], kinds)):
        mistakes.append(
            f"{at}.algorithm.advantage: {algorithm.estimator.name}, but the objective {name} reads which rollouts make a pair: "
            f"let the last step be {' or '.join(last_steps)}"
        )
    return mistakes


def find_small_groups(algorithm: Algorithm, group_size: int, at: str) -> list[str]:
    """The key that leaves fewer rollouts of a group than the algorithm compares, if any does, as one line."""
    if algorithm.answers != "sampled":
        return []
    least = algorithm.min_group
    compares = f"but {algorithm.name} compares the rollouts of a group"
    if group_size < least:
        return [f"{at}.rollout.group_size: {group_size}, {compares}: use at least {least}"]
    size = group_size
    for selector in chain_of(algorithm.select):
        size = selector.count(size) if isinstance(selector, FixedSize) else size
        least = algorithm.min_group if selector.before_advantages else algorithm.min_trained
        if size < least:
            return [
                f"{at}.algorithm.select: it leaves {size} of a group's {group_size} rollouts, {compares}: let it leave at "
                f"least {least}"
            ]
    return []


def find_idle_selectors(algorithm: Algorithm, group_size: int, at: str) -> list[str]:
    """A line for a selector that keeps every rollout of a group."""
    if algorithm.answers != "sampled":
        return []
    size = group_size + (algorithm.replay.add if algorithm.replay is not None else 0)
    size += algorithm.inject is not None and not algorithm.inject.replace
    for selector in chain_of(algorithm.select):
        count = selector.count(size) if isinstance(selector, FixedSize) else size
        if isinstance(selector, FixedSize) and count == size:
            return [
                f"{at}.algorithm.select: {type(selector).__name__.lower()} keeps all of a group's {size} rollouts, and has no "
                "effect; let it keep fewer, or leave it out"
            ]
        size = count
    return []


def find_missing_notes(
    strategy: PromptStrategy, algorithms: Sequence[Algorithm], name: str, at: str
) -> list[str]:
    """A line for a prompt strategy that reads what no advantage step notes. `algorithms`: of the stages up to its own."""
    step = getattr(strategy, "noted_by", None)
    if step is None:
        return []
    kind = STEPS[step]
    assert isinstance(kind, type)
    if any(isinstance(s, kind) for a in algorithms for s in a.estimator.steps):
        return []
    return [
        f"{at}.prompts: {name} weighs prompts by what the advantage step {step} notes, which no stage up to this one has, so "
        "that all would weigh the same; add that step, or use other prompts"
    ]


def find_unused_reference_rules(algorithm: Algorithm, at: str) -> list[str]:
    """Rules about a reference policy that the algorithm does not have or does not reset, one line each."""
    rule, where = algorithm.reference, f"{at}.algorithm.reference"
    if rule.update != "never" and not algorithm.needs.ref_logprobs:
        return [
            f"{where}.update: {rule.update}, but {algorithm.name} has no reference policy; give a regularize.kl above 0, or "
            "leave it out"
        ]
    if rule.reset_optimizer and rule.update != "reset":
        return [
            f"{where}.reset_optimizer: {algorithm.name} has no reference that is reset; give reference.update=reset and a "
            "regularize.kl above 0, or leave it out"
        ]
    return []


def find_unknown_components(algorithm: Algorithm, loaded: LoadedTask, at: str) -> list[str]:
    """Components of the reward that the estimator reads and the task lacks; those of an environment are not known before
    it is played."""
    if loaded.task.env is not None or algorithm.answers != "sampled":
        return []
    names, where = [reward.name for reward in loaded.rewards], f"{at}.algorithm.advantage"
    mistakes: list[str] = []
    for name in sorted(algorithm.estimator.components):
        if name.split("/")[0] in names:
            continue
        if name == ENVIRONMENT:
            lack = f"and task {loaded.task.name} has no environment; leave it out"
        else:
            hint = did_you_mean(name, names) or ";"
            lack = f"which the task's rewards do not have{hint} rewards: {', '.join(names)}; add it to task.rewards"
        mistakes.append(f"{where}: it reads the reward component {name!r}, {lack}")
    return mistakes
