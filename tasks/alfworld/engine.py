"""One ALFWorld game on the real engine (TextWorld's PDDL state and Fast-Downward), without its redundant work.

The stock environment translates a problem four times at each start and parses every command of every step. Here a
problem is translated once a process, plans are made when asked for, and a command is worded once a game. Observations,
admissible commands, scores and ends are the stock ones (benchmarks.alfworld; ours/stock figures there).

Not for threads: the translator keeps its settings in global variables.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from vlrft.schema import DataError

from .grammar import Grammar
from .native import load_library, need_engine, release_library
from .translation import for_search, translated

WORDINGS = 8  # grammars, which most games share
NOTHING = "Nothing happens."  # the engine's answer to what it does not know
# The one sentence in which grammars differ, where it is plain words; MARK stands for it in those that are kept.
TASK = re.compile(r'(?<="rhs": ")Your task is to: [^"\\{}\[\]#|]*(?=")')
MARK = "THE TASK OF THIS GAME"
PARTS = ("pddl_domain", "grammar", "pddl_problem")  # of a game file


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a game shows after a command."""

    text: str
    admissible: tuple[str, ...]  # sorted, with `help`
    won: bool = False

    @property
    def score(self) -> int:
        return int(self.won)

    @property
    def done(self) -> bool:
        return self.won


class Game:
    """A game file, played once; `data`: its contents where they are at hand.

    Raises DataError for a file that holds no game, ImportError without the engine.
    """

    def __init__(self, path: str | Path, data: Mapping[str, Any] | None = None) -> None:
        self.path = Path(path)
        self.data = read_game(self.path) if data is None else data
        self._library: Any = None
        self._said: dict[str, str] = {}  # operator -> command
        self._open: dict[str, tuple[str, int, int]] = {}  # command -> operator, id, its effects

    def start(self) -> Shown:
        """The first observation."""
        need_engine()
        try:
            self._build()
        except ImportError:
            raise
        except Exception as e:  # the parsers of two languages raise what they like
            raise DataError(f"{self.path}: the engine cannot read it: {_line(e)}") from e
        return self._shown(self._grammar.say("#intro#", {}).replace(MARK, self._task))

    def act(self, command: str) -> Shown:
        """What the command does; `NOTHING` for one that is not admissible."""
        found = self._open.get(command.strip())
        if found is None:
            return self._shown(NOTHING)
        operator, number, effects = found
        self._apply(number, effects)
        binding = self._binding(operator)
        feedback = self._logic.actions[operator.split()[0]].feedback_rule
        return self._shown(self._grammar.say(feedback, binding))

    def plan(self) -> tuple[str, ...]:
        """Commands from here that win, by the engine's planner; none where it finds no way.

        In a large room with several copies of the target it may search for minutes and fill gigabytes.
        """
        return tuple(map(self.command, self.operators()))

    def operators(self) -> tuple[str, ...]:
        """The same as the engine's own operators."""
        import fast_downward

        search = for_search(self.data["pddl_domain"], self.data["pddl_problem"])
        self._library.load_sas_replan(search)  # the stock engine does so for every game
        if not self._library.replan(False):
            return ()
        count = self._library.get_last_plan_length()
        operators = (fast_downward.Operator * count)()
        self._library.get_last_plan(operators)
        return tuple(o.name for o in operators)

    def command(self, operator: str) -> str:
        """An operator in the words of this game."""
        if operator not in self._said:
            template = self._logic.actions[operator.split()[0]].template
            names = {k: v.name for k, v in self._grammar.entities.items()}
            said = self._grammar.say(template, self._binding(operator))
            self._said[operator] = said.format(**names) if "{" in said else said
        return self._said[operator]

    def facts(self) -> list[Any]:
        """What holds now, as TextWorld Propositions over names that people read, sorted."""
        from textworld.logic import Proposition, Variable

        entities = self._grammar.entities
        named = [
            Proposition(f.name, [Variable(entities[v.name].name, v.type) for v in f.arguments])
            for f in self._state.facts
        ]
        return sorted(named, key=str)

    def close(self) -> None:
        """Leaves the game's copy of the library to another."""
        if self._library is not None:
            release_library(self._library)
            self._library = None

    def _build(self) -> None:
        self._problem = translated(self.data["pddl_domain"], self.data["pddl_problem"])
        grammar, self._task = _without_task(self.data["grammar"])
        self._logic = _logic(self.data["pddl_domain"], grammar, self._problem.types)
        self._library = self._library or load_library()
        self._library.load_sas(self._problem.sas)
        self._state = self._first_state()
        entities = _entities(self._state)
        self._grammar = Grammar(self._logic.grammar._rules, self._state, entities)

    def _first_state(self) -> Any:
        """PddlState.__init__ without its translations."""
        from textworld.envs.pddl.logic import Atom, PddlState

        state = PddlState.__new__(PddlState)
        state._logic = self._logic
        state._facts, state._vars_by_type = defaultdict(set), defaultdict(set)
        state._vars_by_name, state._var_counts = {}, Counter()
        state.add_facts(self._problem.facts)
        atoms = (Atom * self._library.get_state_size())()
        self._library.get_state(atoms)
        found = [atom.get_fact(self._problem.kinds) for atom in atoms]
        state.add_facts(fact for fact in found if not fact.is_negation)
        return state

    def _apply(self, number: int, effects: int) -> None:
        from textworld.envs.pddl.logic import Atom

        changed = (Atom * effects)()
        self._library.apply_operator(number, changed)
        for effect in changed:
            fact = effect.get_fact(self._problem.kinds)
            self._state.remove_fact(fact.negate())
            self._state.add_fact(fact)

    def _shown(self, text: str) -> Shown:
        import fast_downward

        operators = (fast_downward.Operator * self._library.get_applicable_operators_count())()
        self._library.get_applicable_operators(operators)
        self._open = {}
        for operator in operators:  # of two with one command the first is what it means
            name = operator.name
            self._open.setdefault(self.command(name), (name, operator.id, operator.nb_effect_atoms))
        won = bool(self._library.check_goal())
        return Shown(text=text, admissible=tuple(sorted(self._open)), won=won)

    def _binding(self, operator: str) -> dict[Any, Any]:
        from textworld.logic import Placeholder, Variable

        name, *arguments = operator.split()
        return {
            Placeholder(place, kind): Variable(argument, kind)
            for (place, kind), argument in zip(
                self._problem.parameters[name], arguments, strict=False
            )
        }


def read_game(path: Path) -> dict[str, Any]:
    """A game file's contents. Raises DataError for what is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise DataError(f"{path}: cannot be read ({e.strerror})") from None
    except ValueError as e:
        raise DataError(f"{path}: damaged, not JSON ({_line(e)})") from None
    if not isinstance(data, dict) or not all(isinstance(data.get(k), str) for k in PARTS):
        raise DataError(f"{path}: no game; expected texts for {', '.join(PARTS)}")
    return data


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _without_task(grammar: str) -> tuple[str, str]:
    """A grammar with the mark for its task, and the task; unchanged where the task is not to be told from it."""
    found = TASK.findall(grammar)
    return (TASK.sub(MARK, grammar), found[0]) if len(found) == 1 else (grammar, MARK)


@lru_cache(maxsize=WORDINGS)
def _logic(domain: str, grammar: str, types: tuple[tuple[str, tuple[str, ...]], ...]) -> Any:
    from textworld.envs.pddl.logic import GameLogic
    from textworld.logic import Type

    logic = GameLogic(domain=domain, grammar=grammar)
    for name, above in dict(reversed(types)).items():  # of a name given twice the first counts
        logic.types.add(Type(name, above))
    return logic


def _entities(state: Any) -> dict[str, Any]:
    """What each object is called: AlfredDemangler over PddlEnv's own."""
    from alfworld.agents.utils.misc import Demangler
    from textworld.generator.game import EntityInfo

    found: dict[str, Any] = {
        v.name: EntityInfo(v.name, v.type) for f in state.facts for v in f.arguments
    }
    for entity in found.values():
        entity.name, entity.definite, entity.indefinite = entity.id, "the", "a"
    names = Demangler(game_infos=found, shuffle=False)
    for entity in found.values():
        entity.name = names.demangle_alfred_name(entity.id)
    return found
