"""PDDL problems translated for Fast-Downward, and cached: the rollouts of a group play the same problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .native import preserve_arguments

CACHED = 64  # problems; about 2 MB each


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A translated problem."""

    sas: bytes
    facts: tuple[Any, ...]  # textworld Propositions that are true at the start
    kinds: Mapping[str, str]  # object -> type
    parameters: Mapping[str, tuple[tuple[str, str], ...]]  # operator -> names and types
    types: tuple[tuple[str, tuple[str, ...]], ...]  # name and supertypes of each


@lru_cache(maxsize=CACHED)
def translate(domain: str, problem: str) -> Problem:
    """The plain translation, with all operators, and the facts that are true at the start."""
    import fast_downward

    with preserve_arguments():
        translation: Any = fast_downward.pddl2sas(domain, problem)
    task, sas = translation
    kinds = {o.name: o.type_name for o in task.objects}
    facts = tuple(f for atom in task.init if (f := _fact(atom, kinds)) is not None)
    return Problem(
        sas=sas.encode(),
        facts=facts,
        kinds=kinds,
        parameters={
            a.name: tuple((p.name.strip("?"), p.type_name) for p in a.parameters)
            for a in task.actions
        },
        types=tuple((t.name, tuple(t.supertype_names)) for t in task.types),
    )


def _fact(atom: Any, kinds: Mapping[str, str]) -> Any:
    """An initial atom as PddlState reads it; None for equalities, costs and distances."""
    from textworld.logic import Proposition, Variable

    if hasattr(atom, "fluent"):
        name, arguments = str(atom.expression.value), atom.fluent.args
        if atom.fluent.symbol == "total-cost" or name.isdigit():
            return None
    else:
        name, arguments = atom.predicate, atom.args
        if name == "=":
            return None
    return Proposition(name, [Variable(a, kinds[a]) for a in arguments])


@lru_cache(maxsize=CACHED)
def translate_for_search(domain: str, problem: str) -> bytes:
    """The optimised translation, for the planner."""
    import fast_downward

    with preserve_arguments():
        sas: str = fast_downward.pddl2sas(domain, problem, optimize=True)[1]
    return sas.encode()
