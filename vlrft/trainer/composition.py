"""Parts of an algorithm that do not go together, and rewards that its estimator reads and the task does not have.

An objective may say with which reductions (`reductions`) and after which last step of the estimator (`last_steps`) it is what its
docstring says; a step, which components of the reward it reads (`components`).
"""

from __future__ import annotations

from vlrft.advantages import STEPS
from vlrft.algorithms import Algorithm
from vlrft.objectives.find import OBJECTIVES
from vlrft.plugins.names import did_you_mean
from vlrft.rollout.task import LoadedTask

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


def find_unknown_components(algorithm: Algorithm, loaded: LoadedTask, at: str) -> list[str]:
    """Components of the reward that the estimator reads and the task lacks; those of an environment are not known before
    it is played."""
    if loaded.task.env is not None or algorithm.answers != "sampled":
        return []
    names = [reward.name for reward in loaded.rewards]
    wanted = sorted(algorithm.estimator.components - {ENVIRONMENT})
    return [
        f"{at}.algorithm.advantage: it reads the reward component {name!r}, which the task's rewards do not have"
        f"{did_you_mean(name, names) or ';'} rewards: {', '.join(names)}; add it to task.rewards"
        for name in wanted
        if name.split("/")[0] not in names
    ]
