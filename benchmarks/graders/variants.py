"""Other notations of a gold answer, and answers that are similar to it but not equal.

values.py decides which is which, never a grader. A gold answer that it cannot read gets only the
rewritings that keep the value by construction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.graders.gold_parts import UNITS, Gold
from benchmarks.graders.values import factors, number, same, values

Variant = tuple[str, str]  # kind, text

OTHER_UNIT = {
    "°": "cm",
    "cm": "m",
    "m": "cm",
    "cm²": "cm",
    "m²": "m",
    "mm": "cm",
    "n mile": "m",
} | {
    "h": "s",
    "s": "h",
    "%": "°",
    "$": "%",
}
_INNER = r"\{([^{}]*)\}"


def rewritings(gold: Gold) -> Iterator[Variant]:
    """The same answer in other notations."""
    text, core, unit = gold.text, gold.core, gold.unit
    yield "itself", text
    yield "dollars", f"${text}$" if "\\$" not in text else text
    yield from _if_changed("dfrac", text, text.replace("\\frac", "\\dfrac"))
    if not gold.words and text.count("(") == text.count(")") == 1 and "\\left" not in text:
        yield "left right", text.replace("(", "\\left(").replace(")", "\\right)")
    if (
        not gold.words
        and not re.search("[0-9]e[-+0-9]", text)
        and "\\text" not in text
        and "\\mbox" not in text
    ):
        yield "spacing", re.sub(r"(?<=[0-9a-z)}])([+\-])", r" \1 ", text)
        yield from _if_changed("spacing", text, re.sub(r"\s*([+\-=])\s*", r"\1", text))
    if gold.words:
        plain = text.removeprefix("\\text{").rstrip("}")
        yield "text", plain if plain != text else f"\\text{{{text}}}"
        return
    if (
        "=" not in text
        and not gold.items
        and "\\in" not in text
        and "," not in text
        and not re.search(r"[<>]|\\[gl]eq", text)
    ):
        yield "equation", f"x = {text}" if "x" not in text else f"y = {text}"
    for form in UNITS.get(unit, ()):
        if not text.endswith(form):
            yield "unit rewritten", core + form
    if unit and unit != "%":
        yield "unit left out", core
    if not unit and number(core) is not None:
        yield "unit added", core + "\\text{ cm}"
        yield "unit added", core + " degrees"
    yield from _roots(text)
    if gold.items and gold.ends == ("", ""):
        yield "reordered", ", ".join(reversed(gold.items))
    yield from ((kind, _add_unit(other, gold)) for kind, other in _numbers(core))


def near_misses(gold: Gold) -> Iterator[Variant]:
    """Answers unequal to the gold answer; each is proved to have another value."""
    expected = values(gold.core)
    for kind, other in _misses(gold):
        actual = values(other)
        if expected and actual and not same(expected, actual):
            yield kind, _add_unit(other, gold)
    rational = number(gold.core)
    if rational is not None and 0 < abs(rational) <= 1 and not gold.unit:
        yield "percent sign", f"{gold.core}\\%"
    if gold.unit:
        yield "unit changed", gold.core + UNITS[OTHER_UNIT[gold.unit]][0]
    if gold.items and all(values(item) for item in gold.items):
        yield from _tuples(gold)
    if not gold.items and expected and not gold.unit:
        yield "hedged", f"{gold.core} or {gold.core}+1"
        yield "hedged", f"{gold.core}, 0.77"
        yield "in a sentence", f"not {gold.core} but 0.77"
    if gold.words:
        plain = gold.text.removeprefix("\\text{").rstrip("}").strip("()")
        yield "other word", "B" if plain != "B" and len(plain) == 1 else plain[::-1] + "x"
        yield "hedged", f"{plain} or 0.77"


def _misses(gold: Gold) -> Iterator[Variant]:
    core = gold.core
    if gold.items:
        return
    yield "sign flipped", core[1:].strip() if core.startswith("-") else f"-({core})"
    if core.isdigit():
        yield "sign flipped", f"-{core}"
        yield "off by one", str(int(core) + 1)
        yield "off by one", str(int(core) - 1)
    digits = [m.start() for m in re.finditer("[0-9]", core)]
    for place in {digits[0], digits[-1]} if digits else ():
        digit = str((int(core[place]) + 3) % 10)
        yield "digit changed", core[:place] + digit + core[place + 1 :]
    if match := re.fullmatch(rf"(-?)\\[dt]?frac{_INNER}{_INNER}", core):
        yield "reciprocal", f"{match[1]}\\frac{{{match[3]}}}{{{match[2]}}}"
    yield from _if_changed(
        "root dropped", core, re.sub(rf"(?:\\sqrt|√)\s*{_INNER}", r" \\cdot \1", core, count=1)
    )
    yield from _if_changed("pi dropped", core, core.replace("\\pi", "", 1).replace("π", "", 1))
    value = values(core)
    if value and number(core) is None and value[0] == value[1] and value[0].imag == 0:
        yield "rounded", f"{value[0].real:.4g}"


def _tuples(gold: Gold) -> Iterator[Variant]:
    left, right = gold.ends
    items = gold.items
    first = re.sub("[0-9]", lambda m: str((int(m[0]) + 3) % 10), items[0], count=1)
    if not any(same(values(first), values(item)) for item in items):
        yield "digit changed", left + ", ".join((first, *items[1:])) + right
    rotated = (*items[1:], items[0])
    differ = any(not same(values(a), values(b)) for a, b in zip(items, rotated, strict=True))
    if left and differ:
        yield "order changed", left + ", ".join(rotated) + right
    yield "item dropped", left + ", ".join(items[:-1]) + right
    yield "item added", left + ", ".join((*items, "0.77")) + right
    if left and "infty" not in gold.core:
        yield "bracket changed", ("[" if left == "(" else "(") + ", ".join(items) + right


def _add_unit(core: str, gold: Gold) -> str:
    if gold.unit == "$":
        return f"\\${core}"
    return core + (UNITS[gold.unit][0] if gold.unit else "")


def _if_changed(kind: str, old: str, new: str) -> Iterator[Variant]:
    if new != old:
        yield kind, new


def _roots(text: str) -> Iterator[Variant]:
    yield from _if_changed(
        "root sign", text, text.replace("\\sqrt", "√") if "\\sqrt[" not in text else text
    )
    yield from _if_changed("root sign", text, text.replace("√", "\\sqrt"))
    yield from _if_changed("pi sign", text, text.replace("\\pi", "π"))
    yield from _if_changed("pi sign", text, text.replace("π", "\\pi "))


def _numbers(core: str) -> Iterator[Variant]:
    """Other notations of a plain number."""
    rational = number(core)
    if rational is None:
        return
    n, d = rational.numerator, rational.denominator
    sign = "-" if n < 0 else ""
    terminates = set(factors(d)) <= {2, 5}
    if d > 1:
        yield "fraction", f"{sign}\\frac{{{abs(n)}}}{{{d}}}"
        yield "slash", f"{n}/{d}"
        yield "unreduced", f"{sign}\\frac{{{3 * abs(n)}}}{{{3 * d}}}"
        if abs(n) > d and sign == "":
            yield "mixed", f"{n // d}\\frac{{{n % d}}}{{{d}}}"
    if terminates and len(str(d)) < 8 and abs(rational) < 10**12:
        places = max(1, len(factors(d)))
        digits = f"{n * 10**places // d}".rjust(places + 1, "0") if n >= 0 else ""
        if digits:
            yield "decimal", f"{digits[:-places]}.{digits[-places:]}"
            yield "trailing zero", f"{digits[:-places]}.{digits[-places:]}0"
    if d == 1 and 1000 <= abs(n) < 10**15:
        yield "thousands", f"{n:,}"
        yield "thousands", f"{n:,}".replace(",", "{,}")
    if abs(n) >= 10**4 and d == 1 and n % 100 == 0:
        yield "powers of ten", f"{n // 100} \\times 10^{{2}}"
    if 0 < rational < 1 and terminates and len(str(d)) < 6:
        percent = rational * 100
        yield "percent", f"{percent.numerator / percent.denominator:.10g}\\%"
