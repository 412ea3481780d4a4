"""How the time of a regular expression grows with its text, in the worst case, in Python's `re`.

`re` tries one way to match after another. The pattern is turned into an automaton without loops of empty steps; the number
of its runs over a text of n characters is O(n^d) for the longest chain of d pairs of states p, q in which a word w leads
from p to p, from p to q and from q to q (Weber and Seidl 1991, On the degree of ambiguity of finite automata), and
exponential where a state has two runs to itself over one word. The time is the runs over each beginning of the text:
O(n^(d+1)). A search has a further state before the pattern that skips characters.

Conservative: lookarounds are taken to hold, atomic groups and possessive repeats to backtrack, and a backreference
to match what its group could.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

EXPONENTIAL = 99
MAX_COPIES = 64  # of a bounded repeat
EXAMPLES = (
    "aZ05_ \n\t\u00a0é٣🂡\ud800-.,"  # of the categories; the pattern's own characters are added
)
REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}
CATEGORIES = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w", "NOT_DIGIT": r"\D", "NOT_SPACE": r"\S", "NOT_WORD": r"\W"}  # fmt: skip


class Step(NamedTuple):
    """A transition; `way` tells apart those that differ in the empty steps before them."""

    target: int
    characters: frozenset[str]
    way: int


class Automaton:
    """The pattern's states with empty steps and steps over one character."""

    def __init__(self, pattern: re.Pattern[str], *, searches: bool) -> None:
        self.flags = pattern.flags
        tree = parser.parse(pattern.pattern, pattern.flags)
        self.alphabet = frozenset(EXAMPLES) | frozenset(_neighbours(tree))
        self.empty: dict[int, list[tuple[int, bool]]] = defaultdict(list)  # target, guarded
        self.over: dict[int, tuple[frozenset[str], int]] = {}
        self.groups: dict[int, Any] = {}
        self.size = 0
        self.start = self._state()
        begins = bool(tree) and str(tree[0][1]) in ("AT_BEGINNING", "AT_BEGINNING_STRING")
        if searches and not (begins and not pattern.flags & re.MULTILINE):
            skip = self._state()
            self.over[skip] = (self.alphabet, self.start)
            self.empty[self.start].append((skip, False))
        first = self._state()
        self.empty[self.start].append((first, False))
        self.end = self._sequence(tree, first)

    def steps(self) -> dict[int, list[Step]]:
        """State -> the steps from it, for the states that a character leads to."""
        result: dict[int, list[Step]] = {}
        pending = [self.start]
        while pending:
            state = pending.pop()
            if state in result:
                continue
            result[state] = [
                Step(self.over[at][1], self.over[at][0], way)
                for way, at in enumerate(self._ways(state, frozenset()))
            ]
            pending += [step.target for step in result[state]]
        return result

    def succeeds(self, state: int) -> bool:
        """Whether the match has succeeded here, whatever follows."""
        seen, pending = set[int](), [state]
        while pending:
            place = pending.pop()
            seen.add(place)
            pending += [t for t, guarded in self.empty[place] if not guarded and t not in seen]
        return self.end in seen

    def _ways(self, state: int, path: frozenset[int]) -> Iterator[int]:
        """The states with a step over a character, once for each simple path of empty steps to it."""
        if state in self.over:
            yield state
        for target, _ in self.empty[state]:
            if target not in path:
                yield from self._ways(target, path | {target})

    def _state(self) -> int:
        self.size += 1
        return self.size

    def _sequence(self, nodes: Any, state: int) -> int:
        for kind, argument in nodes:
            state = self._node(str(kind), argument, state)
        return state

    def _node(self, kind: str, argument: Any, state: int) -> int:
        after = self._state()
        if kind in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            at = self._state()
            self.empty[state].append((at, False))
            self.over[at] = (self._characters(kind, argument), after)
        elif kind in REPEATS:
            low, high, body = argument
            for _ in range(low):
                state = self._sequence(body, state)
            if high == parser.MAXREPEAT:
                begin = self._state()
                finish = self._sequence(body, begin)
                self.empty[state] += [(begin, False), (after, False)]
                self.empty[finish] += [(begin, False), (after, False)]
            else:
                assert high <= MAX_COPIES, f"a repeat of up to {high}"
                self.empty[state].append((after, False))
                for _ in range(high - low):
                    state = self._sequence(body, state)
                    self.empty[state].append((after, False))
        elif kind in ("SUBPATTERN", "ATOMIC_GROUP"):
            body = argument[-1] if kind == "SUBPATTERN" else argument
            if kind == "SUBPATTERN" and argument[0] is not None:
                self.groups[argument[0]] = body
            self.empty[self._sequence(body, state)].append((after, False))
        elif kind in ("BRANCH", "GROUPREF_EXISTS"):
            bodies = argument[1] if kind == "BRANCH" else [body or [] for body in argument[1:]]
            for body in bodies:
                begin = self._state()
                self.empty[state].append((begin, False))
                self.empty[self._sequence(body, begin)].append((after, False))
        elif kind == "GROUPREF":
            self.empty[self._sequence(self.groups[argument], state)].append((after, False))
        elif kind in ("AT", "ASSERT", "ASSERT_NOT"):
            self.empty[state].append((after, True))
            if kind != "AT" and argument[0] > 0:  # a lookahead reads on; a lookbehind is short
                begin = self._state()
                self.empty[state].append((begin, True))
                self._sequence(argument[1], begin)
        else:
            raise AssertionError(f"{kind} is not known here")
        return after

    def _characters(self, kind: str, argument: Any) -> frozenset[str]:
        return frozenset(c for c in self.alphabet if any(self._is(kind, argument, f) for f in self._cases(c)))  # fmt: skip

    def _cases(self, character: str) -> set[str]:
        if not self.flags & re.IGNORECASE:
            return {character}
        return {character, character.lower(), character.upper()}

    def _is(self, kind: str, argument: Any, c: str) -> bool:
        if kind == "ANY":
            return c != "\n" or bool(self.flags & re.DOTALL)
        if kind in ("LITERAL", "NOT_LITERAL"):
            return (len(c) == 1 and ord(c) == argument) is (kind == "LITERAL")
        if kind == "RANGE":
            return len(c) == 1 and argument[0] <= ord(c) <= argument[1]
        if kind == "CATEGORY":
            name = str(argument).removeprefix("CATEGORY_").removeprefix("UNI_")
            return re.fullmatch(CATEGORIES[name], c, self.flags & re.ASCII) is not None
        assert kind == "IN", kind
        negated = str(argument[0][0]) == "NEGATE"
        return any(self._is(str(k), a, c) for k, a in argument[negated:]) is not negated


def degree(pattern: re.Pattern[str], *, searches: bool) -> int:
    """The k of the worst-case time O(n^k); EXPONENTIAL for no such k. `searches`: by `search`, `sub`, `findall`, …, not
    `match` or `fullmatch`."""
    automaton = Automaton(pattern, searches=searches)
    steps = automaton.steps()
    reach = {state: _reachable(steps, state) for state in steps}
    loops = [state for state in steps if state in reach[state]]
    within = {p: {q for q in reach[p] if p in reach[q]} for p in loops}
    if any(_has_two_runs(steps, p, within[p]) for p in loops):
        return EXPONENTIAL
    pairs = [
        (p, q)
        for p in loops
        for q in loops
        if p != q and q in reach[p] and _is_pumped(steps, p, q, within)
        if not (searches and p == automaton.start and automaton.succeeds(q))
    ]
    longest: dict[tuple[int, int], int] = {}

    def chain(pair: tuple[int, int]) -> int:
        if pair not in longest:
            longest[pair] = 0  # pairs within one loop are no chain
            after = (other for other in pairs if other[0] in reach[pair[1]] | {pair[1]})
            longest[pair] = 1 + max(map(chain, after), default=0)
        return longest[pair]

    return 1 + max(map(chain, pairs), default=0)


def _reachable(steps: dict[int, list[Step]], state: int) -> set[int]:
    seen, pending = set[int](), [state]
    while pending:
        for step in steps[pending.pop()]:
            if step.target not in seen:
                seen.add(step.target)
                pending.append(step.target)
    return seen


def _has_two_runs(steps: dict[int, list[Step]], p: int, loop: set[int]) -> bool:
    """Whether two different runs lead from p to p over one word."""
    seen, pending = set[tuple[int, int, bool]](), [(p, p, False)]
    while pending:
        a, b, differ = pending.pop()
        for i in steps[a]:
            for j in steps[b]:
                if i.target in loop and j.target in loop and i.characters & j.characters:
                    split = differ or i.target != j.target or (a == b and i.way != j.way)
                    state = (i.target, j.target, split)
                    if state == (p, p, True):
                        return True
                    if state not in seen:
                        seen.add(state)
                        pending.append(state)
    return False


def _is_pumped(steps: dict[int, list[Step]], p: int, q: int, within: dict[int, set[int]]) -> bool:
    """Whether one word leads from p to p, from p to q and from q to q."""
    seen, pending = set[tuple[int, int, int]](), [(p, p, q)]
    while pending:
        a, b, c = pending.pop()
        for i in steps[a]:
            for k in steps[c]:
                if i.target not in within[p] or k.target not in within[q]:
                    continue
                shared = i.characters & k.characters
                for j in steps[b] if shared else ():
                    state = (i.target, j.target, k.target)
                    if shared & j.characters and state not in seen:
                        if state == (p, q, q):
                            return True
                        seen.add(state)
                        pending.append(state)
    return False


def _neighbours(nodes: Any) -> Iterator[str]:
    """The characters that the tree names and those next to them."""
    for node in nodes:
        if (
            isinstance(node, tuple)
            and len(node) == 2
            and str(node[0]) in ("LITERAL", "NOT_LITERAL")
        ):
            yield from (chr(c) for c in range(max(0, node[1] - 1), node[1] + 2))
        elif isinstance(node, tuple) and len(node) == 2 and str(node[0]) == "RANGE":
            yield from (chr(c) for end in node[1] for c in (max(0, end - 1), end, end + 1))
        elif isinstance(node, tuple | list) or type(node).__name__ == "SubPattern":
            yield from _neighbours(node)
