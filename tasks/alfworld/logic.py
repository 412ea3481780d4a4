"""The words and rules of a game, as the engine has them: the grammar without its task, the logic, and the names of objects."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

CACHED_GRAMMARS = 8  # most games share one
# The only sentence in which grammars differ, if it is plain text; cached grammars have MARK in its place.
TASK_SENTENCE = re.compile(r'(?<="rhs": ")Your task is to: [^"\\{}\[\]#|]*(?=")')
MARK = "THE TASK OF THIS GAME"


def split_task(grammar: str) -> tuple[str, str]:
    """The grammar with MARK in place of its task, and the task; unchanged if there is not exactly one such sentence."""
    tasks = TASK_SENTENCE.findall(grammar)
    return (TASK_SENTENCE.sub(MARK, grammar), tasks[0]) if len(tasks) == 1 else (grammar, MARK)


@lru_cache(maxsize=CACHED_GRAMMARS)
def make_logic(domain: str, grammar: str, types: tuple[tuple[str, tuple[str, ...]], ...]) -> Any:
    """The engine's actions and types. `types`: each name with those above it."""
    from textworld.envs.pddl.logic import GameLogic
    from textworld.logic import Type

    logic = GameLogic(domain=domain, grammar=grammar)
    for name, supertypes in dict(reversed(types)).items():  # of a repeated name the first counts
        logic.types.add(Type(name, supertypes))
    return logic


def name_entities(state: Any) -> dict[str, Any]:
    """The name of each object, by AlfredDemangler, as in the stock environment."""
    from alfworld.agents.utils.misc import Demangler
    from textworld.generator.game import EntityInfo

    entities: dict[str, Any] = {
        v.name: EntityInfo(v.name, v.type) for f in state.facts for v in f.arguments
    }
    for entity in entities.values():
        entity.name, entity.definite, entity.indefinite = entity.id, "the", "a"
    names = Demangler(game_infos=entities, shuffle=False)
    for entity in entities.values():
        entity.name = names.demangle_alfred_name(entity.id)
    return entities
