"""The signature of a reward: its parameter names determine what it is called with, and how often. No torch.

    (completion, sample)        once per rollout
    (completions, sample)       once per group: takes a list, returns a list
    (completions, samples)      once per batch: takes lists, returns a list
    (completions, **columns)    once per batch, as TRL calls its reward functions, with prompts, completion_ids, columns

Any of them may have a parameter `progress`: the share of the stage's steps that are done, in [0, 1). Any may be an `async def`, an
object with `__call__` or a functools.partial. Further parameters with a default are left at it, and so is what a partial has set.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from vlrft.schema.errors import PluginError

Scope = Literal["rollout", "group", "batch", "columns"]
SCOPES: dict[Scope, frozenset[str]] = {
    "rollout": frozenset({"completion", "sample"}),
    "group": frozenset({"completions", "sample"}),
    "batch": frozenset({"completions", "samples"}),
}
PROGRESS = "progress"
TRL = {"prompts", "completions", "completion_ids"}  # a TRL-style reward has at least one of them
ALLOWED = (
    "(completion, sample) for a rollout, (completions, sample) for a group, (completions, samples) "
    "for a batch, each also with progress, or TRL's: some of prompts, completions, completion_ids, columns and **kwargs"
)
STRINGS = {"list[str]", "List[str]", "Sequence[str]", "Iterable[str]"}


@dataclass(frozen=True, kw_only=True)
class RewardSignature:
    """How a reward is called."""

    scope: Scope
    asynchronous: bool = False
    progress: bool = False  # it has a parameter `progress`
    wants: tuple[str, ...] = ()  # the named parameters of a TRL-style reward
    needs: frozenset[str] = frozenset()  # the parameters without a default
    rest: bool = False  # it has **kwargs, and gets all columns
    strings: bool = False  # it gets completions as text, not as chat messages


def signature_of(function: object) -> RewardSignature:
    """The signature of a reward. Raises PluginError for a thing that cannot be called as a reward."""
    if not callable(function):
        raise PluginError(f"found a {type(function).__name__}, expected a function {ALLOWED}")
    if isinstance(function, type):
        raise PluginError(f"{function.__name__} is a class; give an instance of it")
    try:
        signature = inspect.signature(function)
    except ValueError:
        raise PluginError(f"its parameters cannot be read; expected {ALLOWED}") from None
    named = {
        p.name: p
        for p in signature.parameters.values()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }
    kinds = {p.kind for p in signature.parameters.values()}
    needs = frozenset(name for name, p in named.items() if p.default is p.empty)
    rest = inspect.Parameter.VAR_KEYWORD in kinds
    is_set = isinstance(function, functools.partial) and PROGRESS in function.keywords
    asynchronous, progress = _is_async(function), PROGRESS in named and not is_set
    if inspect.Parameter.POSITIONAL_ONLY not in kinds:
        for scope, names in SCOPES.items():
            if names <= set(named) and needs <= names | {PROGRESS}:
                return RewardSignature(scope=scope, asynchronous=asynchronous, progress=progress)
        if set(named) & TRL and not set(named) & {"completion", "sample", "samples"}:
            annotation = ""
            if "completions" in named:
                annotation = inspect.formatannotation(named["completions"].annotation).strip("'\"")
            return RewardSignature(
                scope="columns",
                asynchronous=asynchronous,
                progress=progress,
                wants=tuple(named),
                needs=needs,
                rest=rest,
                strings=annotation.rpartition(".")[2] in STRINGS,
            )
    raise PluginError(f"its parameters are {_bare(signature)}; expected {ALLOWED}")


def _bare(signature: inspect.Signature) -> str:
    """The signature without annotations."""
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    call: Any = type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
