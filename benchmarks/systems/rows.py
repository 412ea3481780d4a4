"""Which systems of the catalogue are run here, and why the others are left out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from vlrft.config.load import load_config
from vlrft.config.systems import PREFIX, System, all_systems, find_system, system_tree
from vlrft.plugins.find import find_task
from vlrft.schema.errors import ConfigError
from vlrft.selection.prompt_strategies import Uniform
from vlrft.trainer.stage_settings import find_choices

BASE = "quickstart"
"""The base of the systems that are run: its task's rewards grade the answers of task.py, too."""
GRPO, GPG = 124, 106


def why_left_out(system: System) -> str:
    """Why a system that runs is not run here; "" for one that is."""
    return "" if system.base == BASE else _need(system.base)


@cache
def _need(base: str) -> str:
    """The data, models or extras that the task of a shipped config needs."""
    name = load_config(base).task.name
    if find_task(name).env is not None:
        return f"needs an environment ({name})"
    reasons = {"table": "needs data of your own", "textmath": "needs a downloaded data set"}
    return reasons.get(name, f"needs pictures ({name})")


def run_here(names: Sequence[str] = ()) -> list[System]:
    """The systems with these numbers or names, by default all that can be run; GRPO, which all are compared
    with, first. Raises ConfigError for one that cannot be run here."""
    if names:
        found = [find_system(f"{PREFIX}{name.removeprefix(PREFIX)}") for name in names]
        for system in found:
            system_tree(system)  # refuses one that does not run
            if why := why_left_out(system):
                raise ConfigError([f"system:{system.id} ({system.name}) is not run here: {why}"])
    else:
        found = [s for s in all_systems().values() if s.runs and not why_left_out(s)]
    return [find_system(f"{PREFIX}{GRPO}"), *(s for s in found if s.id != GRPO)]


def remembers(system: System) -> bool:
    """Whether it stores rollouts or numbers of a prompt for its next visit, or draws prompts by them."""
    chosen = find_choices(load_config(f"{PREFIX}{system.id}"))
    return any(
        algorithm.replay is not None
        or algorithm.estimator.remembers
        or not isinstance(strategy, Uniform)
        for algorithm, strategy in chosen
    )


def run_again(names: Sequence[str] = ()) -> list[System]:
    """The systems that are run on prompts that come again: those that remember them, and GRPO and GPG, which these extend."""
    return [s for s in run_here(names) if names or s.id in (GRPO, GPG) or remembers(s)]


def left_out() -> dict[str, list[System]]:
    """Reason -> the systems that run and are left out for it."""
    reasons: dict[str, list[System]] = {}
    for system in all_systems().values():
        if system.runs and (why := why_left_out(system)):
            reasons.setdefault(why, []).append(system)
    return reasons
