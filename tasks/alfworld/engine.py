"""One ALFWorld game on the real engine (TextWorld's PDDL state and Fast-Downward), without redundant work.

The stock environment translates a problem four times at each start and parses every command at every step. Here a problem
is translated once a process, a plan is made on request, and a command is put into words once a game. Observations,
admissible commands, scores and ends equal those of the stock environment (compared and timed by `benchmarks.alfworld`).

Not thread-safe: the translator keeps its settings in global variables.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlrft.schema import DataError

from .grammar import Grammar
from .logic import MARK, make_logic, name_entities, split_task
from .native import load_library, release_library, require_engine
from .stored import FILE, find_translation
from .translation import translate_for_search

NOTHING = "Nothing happens."  # the engine's answer to an unknown command
KEYS = ("pddl_domain", "grammar", "pddl_problem")  # of a game file


@dataclass(frozen=True, kw_only=True)
class GameOutput:
    """The state of a game after a command, as its player sees it."""

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
    """A game, played once. `data`: the content of its file if it is loaded already.

    Raises DataError for a file that is no game, ImportError without the engine.
    """

    def __init__(self, path: str | Path, data: Mapping[str, Any] | None = None) -> None:
        self.path = Path(path)
        self.data = read_game(self.path) if data is None else data
        self._library: Any = None
        self._commands: dict[str, str] = {}  # operator -> command
        self._admissible: dict[
            str, tuple[str, int, int]
        ] = {}  # command -> operator, id, number of effects

    def start(self) -> GameOutput:
        """The first observation."""
        require_engine()
        try:
            self._build()
        except ImportError:
            raise
        except Exception as e:  # two parsers, which raise many kinds of errors
            raise DataError(f"{self.path}: the engine cannot read it: {_first_line(e)}") from e
        return self._output(self._grammar.derive("#intro#", {}).replace(MARK, self._task))

    def act(self, command: str) -> GameOutput:
        """Executes a command; the text is `NOTHING` if it is not admissible."""
        entry = self._admissible.get(command.strip())
        if entry is None:
            return self._output(NOTHING)
        operator, number, effects = entry
        self._apply(number, effects)
        binding = self._binding(operator)
        feedback = self._logic.actions[operator.split()[0]].feedback_rule
        return self._output(self._grammar.derive(feedback, binding))

    def plan(self) -> tuple[str, ...]:
        """Commands that win from the current state, by the engine's planner; empty if it finds none.

        In a large room with several copies of the target the search may take minutes and gigabytes.
        """
        return tuple(map(self.command, self.plan_operators()))

    def plan_operators(self) -> tuple[str, ...]:
        """The same plan, in the engine's operators."""
        import fast_downward

        search = translate_for_search(self.data["pddl_domain"], self.data["pddl_problem"])
        self._library.load_sas_replan(search)  # the stock engine does so for every game
        if not self._library.replan(False):
            return ()
        count = self._library.get_last_plan_length()
        operators = (fast_downward.Operator * count)()
        self._library.get_last_plan(operators)
        return tuple(o.name for o in operators)

    def command(self, operator: str) -> str:
        """The command of an operator, in the words of this game."""
        if operator not in self._commands:
            template = self._logic.actions[operator.split()[0]].template
            names = {k: v.name for k, v in self._grammar.entities.items()}
            text = self._grammar.derive(template, self._binding(operator))
            self._commands[operator] = text.format(**names) if "{" in text else text
        return self._commands[operator]

    def facts(self) -> list[Any]:
        """The facts of the current state as TextWorld Propositions over readable names, sorted."""
        from textworld.logic import Proposition, Variable

        entities = self._grammar.entities
        named = [
            Proposition(f.name, [Variable(entities[v.name].name, v.type) for v in f.arguments])
            for f in self._state.facts
        ]
        return sorted(named, key=str)

    def close(self) -> None:
        """Releases the game's copy of the library, for another game."""
        if self._library is not None:
            release_library(self._library)
            self._library = None

    def _build(self) -> None:
        file = self.path.with_name(FILE)
        self._problem = find_translation(file, self.data["pddl_domain"], self.data["pddl_problem"])
        grammar, self._task = split_task(self.data["grammar"])
        self._logic = make_logic(self.data["pddl_domain"], grammar, self._problem.types)
        self._library = self._library or load_library()
        self._library.load_sas(self._problem.sas)
        self._state = self._initial_state()
        entities = name_entities(self._state)
        self._grammar = Grammar(self._logic.grammar._rules, self._state, entities)

    def _initial_state(self) -> Any:
        """PddlState.__init__ without its translations."""
        from textworld.envs.pddl.logic import Atom, PddlState

        state = PddlState.__new__(PddlState)
        state._logic = self._logic
        state._facts, state._vars_by_type = defaultdict(set), defaultdict(set)
        state._vars_by_name, state._var_counts = {}, Counter()
        state.add_facts(self._problem.facts)
        atoms = (Atom * self._library.get_state_size())()
        self._library.get_state(atoms)
        facts = [atom.get_fact(self._problem.kinds) for atom in atoms]
        state.add_facts(fact for fact in facts if not fact.is_negation)
        return state

    def _apply(self, number: int, effects: int) -> None:
        from textworld.envs.pddl.logic import Atom

        changed = (Atom * effects)()
        self._library.apply_operator(number, changed)
        for effect in changed:
            fact = effect.get_fact(self._problem.kinds)
            self._state.remove_fact(fact.negate())
            self._state.add_fact(fact)

    def _output(self, text: str) -> GameOutput:
        import fast_downward

        operators = (fast_downward.Operator * self._library.get_applicable_operators_count())()
        self._library.get_applicable_operators(operators)
        self._admissible = {}
        for operator in operators:  # of two operators with the same command the first is used
            name = operator.name
            self._admissible.setdefault(
                self.command(name), (name, operator.id, operator.nb_effect_atoms)
            )
        won = bool(self._library.check_goal())
        return GameOutput(text=text, admissible=tuple(sorted(self._admissible)), won=won)

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
    """The content of a game file. Raises DataError for any other file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise DataError(f"{path}: cannot be read ({e.strerror})") from None
    except (ValueError, RecursionError) as e:
        raise DataError(f"{path}: damaged, not JSON ({_first_line(e)})") from None
    if not isinstance(data, dict) or not all(isinstance(data.get(k), str) for k in KEYS):
        raise DataError(f"{path}: not a game; expected texts for {', '.join(KEYS)}")
    return data


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
