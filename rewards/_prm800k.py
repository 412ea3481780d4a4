"""The comparison of answers that mathruler and oat share, after PRM800K and the MATH data set.

Two texts are the same answer when their MATH normal forms are equal, or their PRM800K forms are, or the difference of
these is zero. The original computes that difference with sympy, which evaluates the text as Python; here vlrft's own
parser and evaluator take its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from string import ascii_lowercase

from vlrft.grading import equal_formulas

from ._latex_text import latex_to_text

_UNIT_NAMES = (
    "degree cm centimeter meter mile second minute hour day week month year foot feet inch yard"
)
_UNITS = tuple(re.compile(rf"{unit}(?:es)?s? *(?:\^[0-9]+)?") for unit in _UNIT_NAMES.split())
_REPLACED = {
    "\\%": "%",
    "\\$": "$",
    "$": "",
    "%": "",
    " or ": " , ",
    " and ": " , ",
    "million": "*10^6",
    "billion": "*10^9",
    "trillion": "*10^12",
}
_SYMPY_NAMES = (("√", "sqrt"), ("π", "pi"), ("∞", "inf"), ("∪", "U"), ("·", "*"), ("×", "*"))
_DEGREES = re.compile(r"\^ *\\circ")
_THIN_SPACE = re.compile(r",\\! *")
_MINUS = re.compile(r"- *")
_MIXED = re.compile(r"([0-9]) +([0-9])")
_COMMA = re.compile(r"(\d),(\d\d\d)(?!\d)")
_FRACTION = re.compile(r"-?[0-9]+.?/0*[1-9][0-9]*.?$")
_LEFT_ALONE = re.compile(
    r"\^[0-9]+\^|\^[0-9][0-9]+|\^\{|\^\("  # powers that sympy may hang on, so that the original refuses them
    r"|(?<![0-9])\.(?![0-9])|(?:ln|sqrt)(?!\()"  # that sympy cannot read
)
_UNEVALUATED = set("√π∞²³−≤≥≠°")  # signs that sympy refuses


def same_answer(answer: str, gold: str, math_form: Callable[[str], str]) -> bool:
    """Whether the released comparison takes the answer for the gold answer. `math_form`: its MATH normal form."""
    if math_form(answer) == math_form(gold):
        return True
    a, g = _plain_form(answer), _plain_form(gold)
    if a == g:
        return True
    if not a:
        return False
    parts, others = _elements(g), _elements(a)
    if len(parts) != len(others) or (len(parts) > 1 and g[0] + g[-1] != a[0] + a[-1]):
        return False
    return all(map(_same_element, parts, others)) and bool(parts)


def unwrap_text(text: str) -> str:
    """The text without one `\text{…}` around the whole of it."""
    end = len(text) - text.endswith("\n")
    inner = text[len("\\text{") : end - 1]
    whole = text.startswith("\\text{") and text[:end].endswith("}") and inner and "\n" not in inner
    return inner if whole else text


def _plain_form(text: str) -> str:
    """The form of PRM800K: no LaTeX, no units, no spaces, lower case."""
    text = unwrap_text(text)
    for old, new in _REPLACED.items():
        text = text.replace(old, new)
    for unit in _UNITS:
        text = unit.sub("", text)
    text = _DEGREES.sub("", text)
    if text[:1] == "{" and text[-1:] == "}":
        text = text[1:-1]
    text = _THIN_SPACE.sub("", text)
    value = _float(text)
    if value is not None and _is_near_whole(value):
        text = str(round(value))
    if "\\" in text:
        text = _without_latex(text)
    text = _MIXED.sub(r"\1+\2", _MINUS.sub("-", text))
    text = text.replace(" ", "").replace("{", "").replace("}", "").lower()
    return str(int(float(text.replace(",", "")))) if _is_whole(text) else text


def _without_latex(text: str) -> str:
    """As the original, the text itself where its LaTeX cannot be read."""
    text = text.replace("\\tfrac", "\\frac").replace("\\dfrac", "\\frac")
    try:
        plain = latex_to_text(text.replace("\\frac", " \\frac"))
    except (ValueError, RecursionError):
        return text
    for sign, name in _SYMPY_NAMES:
        plain = plain.replace(sign, name)
    return plain.strip()


def _elements(text: str) -> list[str]:
    text = _without_commas(text)
    inner = text[1:-1]
    if len(text) > 2 and text[0] in "()[]" and text[-1] in "()[]" and not set(inner) & set("()[]"):
        return [part.strip() for part in inner.split(",")]
    return [text] if text else []


def _same_element(gold: str, answer: str) -> bool:
    if _FRACTION.match(gold) and _FRACTION.match(answer):
        return gold == answer  # an unreduced fraction is wrong
    if _is_whole(gold) != _is_whole(answer):
        return False
    difference = f"({gold})-({answer})"
    letters = set(filter(str.isalpha, difference.replace("sqrt", "").replace("frac", "")))
    if len(letters) > 2 or _LEFT_ALONE.search(difference) or set(difference) & _UNEVALUATED:
        return False
    return equal_formulas(*(_with_plain_symbols(text, letters) for text in (gold, answer)))


def _with_plain_symbols(text: str, letters: set[str]) -> str:
    """The text with other letters for `e` and `i`, which are symbols to sympy and numbers to vlrft's parser."""
    free = [
        letter for letter in "xyz" + ascii_lowercase if letter not in letters | set("sqrtfacpi")
    ]
    names = {ord(name): letter for name, letter in zip("ei", free, strict=False)}
    return text if "pi" in text else text.translate(names)


def _is_whole(text: str) -> bool:
    value = _float(_without_commas(text))
    return value is not None and _is_near_whole(value)


def _is_near_whole(value: float) -> bool:
    return abs(value) < float("inf") and abs(value - round(value)) <= 1e-7


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _without_commas(text: str) -> str:
    while (shorter := _COMMA.sub(r"\1\2", text)) != text:
        text = shorter
    return text
