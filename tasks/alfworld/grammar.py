"""TextWorld's grammar of observations, derived as in TextWorld, but parsed once.

Game files contain the grammar as data: rules of alternatives with conditions on the facts. `textworld.envs.pddl.textgen`
parses each text and each condition again at every use; here both are pure functions of the text, and cached. A test
compares the texts with those of the stock engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

CACHED = 4096  # texts; the published grammar has about 60

Binding = Mapping[Any, Any]  # TextWorld's Placeholder -> Variable


class Grammar:
    """The rules of one game over its state. `entities`: the name of each variable."""

    def __init__(self, rules: Mapping[str, Any], state: Any, entities: Mapping[str, Any]) -> None:
        self.rules = rules
        self.state = state
        self.entities = entities

    def derive(self, text: str, binding: Binding) -> str:
        """A text of the grammar with all its symbols expanded. Raises KeyError for an unknown symbol."""
        return "".join(self._expand(symbol, binding) for symbol in _parse(text))

    def _expand(self, symbol: Any, binding: Binding) -> str:
        kind = type(symbol).__name__
        if kind == "NonterminalSymbol":
            return "".join(
                self._expand(s, binding) for s in self._choose_rule(symbol.symbol, binding)
            )
        if kind == "EvalSymbol":
            named = {place.name: self.entities[v.name] for place, v in binding.items()}
            return str(eval(_compile(symbol.expression), {"__builtins__": {}}, named))
        if kind == "ConditionalSymbol":
            return "".join(self._items(symbol, binding))
        if kind == "ListSymbol":
            return self._join_list(list(self._items(symbol.symbol, binding)), binding)
        return str(symbol.symbol)

    def _choose_rule(self, name: str, binding: Binding) -> Any:
        """The first alternative whose condition is true."""
        for rule in self.rules[name]:
            if not rule.condition or any(True for _ in self._bindings(rule.condition, binding)):
                return rule.rhs
        raise KeyError(f"no rule for {name} applies")

    def _items(self, symbol: Any, binding: Binding) -> Iterator[str]:
        if type(symbol).__name__ != "ConditionalSymbol":
            yield self._expand(symbol, binding)
            return
        for extended in self._bindings(symbol.given, binding) if symbol.given else [binding]:
            yield self._expand(symbol.expression, extended)

    def _bindings(self, condition: str, binding: Binding) -> list[Binding]:
        return [
            {**binding, **assignment}
            for assignment in self.state.all_assignments(_condition(condition), binding)
        ]

    def _join_list(self, items: list[str], binding: Binding) -> str:
        if len(items) < 2:
            return items[0] if items else self._rule("list_empty", binding)
        between = self._rule("list_separator", binding)
        return between.join(items[:-1]) + self._rule("list_last_separator", binding) + items[-1]

    def _rule(self, name: str, binding: Binding) -> str:
        return "".join(self._expand(s, binding) for s in self._choose_rule(name, binding))


@lru_cache(maxsize=CACHED)
def _parse(text: str) -> Any:
    from textworld.envs.pddl import textgen

    return textgen._parse_and_convert(text, rule_name="symbols")


@lru_cache(maxsize=CACHED)
def _condition(text: str) -> Any:
    from textworld.logic import Rule

    return Rule.parse_conjunctive_query(text)


@lru_cache(maxsize=CACHED)
def _compile(expression: str) -> CodeType:
    return compile(expression.strip(), "<grammar>", "eval")
