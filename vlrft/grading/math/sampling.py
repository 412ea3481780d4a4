"""The points at which two expressions are compared: values of their symbols.

Symbols are positive real numbers (√x² is x), and of both signs where one of | |, ⌊ ⌋, ⌈ ⌉, min and max occurs. Expressions
of one formula need few points. Those with branches need points on every branch: at several scales, between the constants
that occur, beyond them, and whole ones. A symbol is whole where the gold expression says so: in n!, in (-1)ⁿ, and for
the letters j to n inside of ⌊ ⌋ and ⌈ ⌉. An answer cannot say so.

The points depend on both expressions, so that no answer can be written to agree at them alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from random import Random

from vlrft.grading.math.exact import exact_value
from vlrft.grading.math.expression import Expr, symbols, walk

SMOOTH = 8  # points for expressions of one formula
BRANCHING = 24  # for several symbols and branches
SIGNED = 64  # for several symbols and both signs
# Powers of ten about which branches are tried far from the origin, and values near to it.
FAR = (4.5, 9.0, 13.0, 17.0, 21.0, 32.0)
NEAR = (-2.5, -5.0)  # where functions that saturate have not
MAX_BREAKS = 24  # constants, and their ratios, between which points are sampled
_STEPS = ("floor", "ceil")
_BRANCHED = ("abs", "min", "max", *_STEPS)  # by the sign of something
_MULTIVALUED = ("root", "ln", "log", "asin", "acos", "asec", "acsc", "acosh", "atanh")
_DISCRETE = ("factorial", "binom")
_WHOLE_LETTERS = "jklmnKMN"
Point = dict[str, float]


def sample_points(gold: Expr, answer: Expr) -> Iterator[list[Point]]:
    """The points, then more points for a gold expression that is not real at these."""
    names = sorted(symbols(gold) | symbols(answer))
    if not names:
        yield [{}]
        return
    both: Expr = ("add", gold, answer)
    random = Random(repr(both))
    functions = {node[1] for node in walk(both) if node[0] == "fn"}
    signed = not functions.isdisjoint(_BRANCHED)
    branching = signed or any(map(_has_branches, walk(both)))
    whole = _whole_symbols(gold)
    breaks = _find_breaks(random, both) if branching or whole else []
    steps = not functions.isdisjoint(_STEPS)
    pools: dict[str, list[float]] = {}
    for name in names:
        if name in whole:
            pools[name] = _whole_numbers(random, [] if whole[name] else breaks)
        elif signed:
            pools[name] = _signed_numbers(random, breaks, steps=steps)
        else:
            pools[name] = _positive_numbers(random, breaks if branching else [])
    yield _combine(random, pools, SIGNED if signed else BRANCHING if branching or whole else SMOOTH)
    if branching and not signed:
        mirrored = {
            name: pool if name in whole else [-value for value in pool] + pool[:1]
            for name, pool in pools.items()
        }
        yield _combine(random, mirrored, BRANCHING)


def _combine(random: Random, pools: dict[str, list[float]], count: int) -> list[Point]:
    """Each value of the pool of a single symbol; random combinations for several symbols."""
    if len(pools) == 1:
        return [{name: value} for name, pool in pools.items() for value in pool]
    return [{name: random.choice(pool) for name, pool in pools.items()} for _ in range(count)]


def _positive_numbers(random: Random, breaks: list[float]) -> list[float]:
    """Numbers about 1; at several scales, and on each side of the breaks, when there are any."""
    pool = [random.uniform(0.7, 1.3) for _ in range(SMOOTH // 2)]  # their 2000th powers are small
    pool += [random.uniform(0.5, 3.0) for _ in range(SMOOTH // 2)]
    pool += [10 ** random.uniform(power - 0.5, power + 0.5) for power in NEAR]
    if breaks:
        pool += [10 ** random.uniform(-2.0, 2.3) for _ in range(SMOOTH)]
        pool += _between(random, breaks)
    return pool


def _signed_numbers(random: Random, breaks: list[float], *, steps: bool) -> list[float]:
    """Numbers of both signs; whole ones as well when there are steps."""
    pool = _positive_numbers(random, breaks)
    pool += [10 ** random.uniform(2.0, 3.0) for _ in range(4)]
    pool += [10 ** random.uniform(power - 0.5, power + 0.5) for power in FAR]
    pool = [sign * value for value in pool for sign in (1, -1)]
    if steps:
        pool += [float(round(value)) for value in pool[::2] if round(value)] + [-1.0, 1.0, 2.0]
    return pool


def _whole_numbers(random: Random, breaks: list[float]) -> list[float]:
    """Positive whole numbers: up to 40, for factorials; larger ones when there are breaks."""
    pool = [*range(1, 9), *(random.randint(9, 40) for _ in range(6))]
    if breaks:
        pool += [round(10 ** random.uniform(1.0, 3.0)) for _ in range(6)]
        pool += [max(1, round(value)) for value in _between(random, breaks)]
    return [float(value) for value in dict.fromkeys(pool)]


def _between(random: Random, breaks: list[float]) -> list[float]:
    """Numbers between any two neighbours among the breaks, and beyond these."""
    inside = [low + (high - low) * random.uniform(0.1, 0.9) for low, high in pairwise(breaks)]
    beyond = [breaks[-1] * random.uniform(1.1, 3.0), breaks[-1] * random.uniform(20.0, 60.0)]
    return [breaks[0] * random.uniform(0.1, 0.9), *inside, *beyond]


def _find_breaks(random: Random, expr: Expr) -> list[float]:
    """Where the expression may go from one branch to another: the constants that occur, 1, and their ratios."""
    constants = {Fraction(1)} | {abs(value) for node in walk(expr) if (value := _constant(node))}
    near = sorted(constants, key=lambda c: (abs(c.numerator * c.denominator), c))[:8]
    ratios = {a / b for a in near for b in near} | {a * b for a in near[:4] for b in near[:4]}
    breaks = sorted({float(value) for value in constants | ratios if 1e-12 < value < 1e12})
    if len(breaks) > MAX_BREAKS:
        of_constants = {float(value) for value in near if 1e-12 < value < 1e12}
        others = [value for value in breaks if value not in of_constants]
        random.shuffle(others)
        breaks = sorted([*of_constants, *others][:MAX_BREAKS])
    return breaks


def _constant(node: Expr) -> Fraction | None:
    if node[0] == "num":
        return Fraction(node[1])
    return exact_value(node) if node[0] == "pow" and node[1][0] == "num" else None


def _has_branches(node: Expr) -> bool:
    """Whether the node's function is not one formula everywhere: a root, a logarithm, | |."""
    if node[0] == "fn":
        return node[1] in (*_BRANCHED, *_MULTIVALUED) and bool(symbols(node))
    if node[0] != "pow" or not symbols(node[1]):
        return False
    exponent = exact_value(node[2])
    return exponent is None or exponent.denominator != 1


def _whole_symbols(gold: Expr) -> dict[str, bool]:
    """The whole symbols, and whether their values must be small, being in a factorial."""
    whole: dict[str, bool] = {}
    for node in walk(gold):
        if node[0] == "pow" and node[1][0] == "num" and node[1][1] < 0:
            inside, letters, small = symbols(node[2]), None, True
        elif node[0] == "fn" and node[1] in _DISCRETE:
            inside, letters, small = symbols(node), None, True
        elif node[0] == "fn" and node[1] in _STEPS:
            inside, letters, small = symbols(node), _WHOLE_LETTERS, False
        else:
            continue
        for name in inside:
            if letters is None or name[0] in letters:
                whole[name] = small or whole.get(name, False)
    return whole
