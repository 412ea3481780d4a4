"""The comparison of answers that mathruler and oat share, after PRM800K and the MATH data set.

Two texts are the same answer when their MATH normal forms are equal, or their PRM800K forms are, or the difference of
these is zero. The original computes that difference with sympy, which evaluates the text as Python; here vlrft's own
parser and evaluator take its place.
"""

from __future__ import annotations

import re

from vlrft.grading import equal_formulas

_UNITS = (
    "degree|cm|centimeter|meter|mile|second|minute|hour|day|week|month|year|foot|feet|inch|yard"
)
_MAGNITUDES = (("million", "*10^6"), ("billion", "*10^9"), ("trillion", "*10^12"))
_SPOKEN = (
    (r"\\[dt]?frac\s*", ""),
    (r"\\(?:left|right|mathrm|text|mathbf|mbox)(?![a-z])", ""),
    (r"\\infty", "inf"),
    (r"\\cup", "U"),
    (r"\\(?:cdot|times)", "*"),
    (r"\\sqrt\s*", "sqrt"),
    (r"\\pm", "±"),
    (r"\\([a-zA-Z]+)", r"\1"),
    (r"\\[!,;: ]", " "),
    (r"[\\$]", ""),
)
_COMMA = re.compile(r"([0-9]),([0-9]{3})(?![0-9])")
_FRACTION = re.compile(r"-?[0-9]+.?/0*[1-9][0-9]*.?")
_HANGING = re.compile(
    r"\^[0-9]+\^|\^[0-9][0-9]+|\^\{|\^\("
)  # powers that the original leaves alone


def same_answer(answer: str, gold: str) -> bool:
    """Whether the released comparison takes the answer for the gold answer."""
    if _math_form(answer) == _math_form(gold):
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


def _math_form(text: str) -> str:
    """The normal form of the MATH data set."""
    text = text.strip()
    wrapped = re.match(r"\\text\{(.+?)\}$", text)
    text = original = wrapped[1].strip() if wrapped else text
    text = text.replace("\n", "").replace("\\!", "").replace("\\\\", "\\")
    text = re.sub(r"[td]frac", "frac", text).replace("\\left", "").replace("\\right", "")
    text = text.replace("^{\\circ}", "").replace("^\\circ", "").replace("\\$", "")
    if text.count("\\text{ ") > 1:
        return original
    text = text.partition("\\text{ ")[0].replace("\\%", "").replace("%", "")
    text = re.sub(r"^\.", "0.", text.replace(" .", " 0.").replace("{.", "{0."))
    name, sign, value = text.partition("=")
    if sign and "=" not in value and len(name) <= 2:
        text = value
    text = re.sub(r"\\sqrt([^{])", r"\\sqrt{\1}", text).replace(" ", "")
    if re.search(r"\\frac[^{]?$", text) is None:
        text = re.sub(r"\\frac([^{])([^{])", r"\\frac{\1}{\2}", text)
        text = re.sub(r"\\frac([^{])\{", r"\\frac{\1}{", text)
    if text == "0.5":
        return "\\frac{1}{2}"
    return re.sub(r"^(-?(?:0|[1-9][0-9]*))/(-?(?:0|[1-9][0-9]*))$", r"\\frac{\1}{\2}", text)


def _plain_form(text: str) -> str:
    """The form of PRM800K: no LaTeX, no units, no spaces, lower case."""
    wrapped = re.match(r"\\text\{(.+?)\}$", text)
    text = wrapped[1] if wrapped else text
    text = text.replace("\\%", "").replace("%", "").replace("\\$", "").replace("$", "")
    text = text.replace(" or ", " , ").replace(" and ", " , ")
    for name, factor in _MAGNITUDES:
        text = text.replace(name, factor)
    text = re.sub(rf"(?:{_UNITS})(?:es)?s? *(?:\^[0-9]+)?", "", text)
    text = re.sub(r"\^ *\\circ", "", text)
    if text[:1] == "{" and text[-1:] == "}":
        text = text[1:-1]
    text = _whole(re.sub(r",\\! *", "", text))
    if "\\" in text:
        text = _spoken(text)
    text = re.sub(r"- *", "-", text)
    text = re.sub(r"([0-9]) +([0-9])", r"\1+\2", text)
    text = text.replace(" ", "").replace("{", "").replace("}", "").lower()
    return _whole(text)


def _spoken(text: str) -> str:
    """LaTeX as plain text: the braces of fractions are removed, those of roots become parentheses."""
    text = re.sub(r"\\[dt]?frac", r" \\frac", text)
    inner = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
    while True:
        expanded = re.sub(rf"\\frac\s*{inner}\s*{inner}", r"\1/\2", text)
        expanded = re.sub(rf"\\sqrt\s*{inner}", r"sqrt(\1)", expanded)
        expanded = re.sub(r"\\sqrt\s*([0-9a-z])", r"sqrt(\1)", expanded)
        expanded = re.sub(r"\\frac\s*([0-9a-z])\s*([0-9a-z])", r"\1/\2", expanded)
        if expanded == text:
            break
        text = expanded
    for pattern, plain in _SPOKEN:
        text = re.sub(pattern, plain, text)
    return text.strip()


def _whole(text: str) -> str:
    """The digits of a text that Python parses as a whole number; any other text as it is."""
    try:
        value = float(_without_commas(text))
        return str(round(value)) if abs(value - round(value)) <= 1e-7 else text
    except (ValueError, OverflowError):
        return text


def _without_commas(text: str) -> str:
    while (shorter := _COMMA.sub(r"\1\2", text)) != text:
        text = shorter
    return text


def _elements(text: str) -> list[str]:
    text = _without_commas(text)
    inner = text[1:-1]
    if len(text) > 2 and text[0] in "([" and text[-1] in ")]" and not set(inner) & set("()[]"):
        return [part.strip() for part in inner.split(",")]
    return [text] if text else []


def _same_element(gold: str, answer: str) -> bool:
    if _FRACTION.fullmatch(gold) and _FRACTION.fullmatch(answer):
        return gold == answer  # an unreduced fraction is wrong
    if _is_whole(gold) != _is_whole(answer):
        return False
    difference = f"({gold})-({answer})"
    letters = set(re.sub("sqrt|frac", "", difference)) & set("abcdefghijklmnopqrstuvwxyzπθ")
    if len(letters) > 2 or _HANGING.search(difference) or set(difference) & set("√π°²³×−"):
        return False
    return equal_formulas(gold, answer)


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"[+-]?[0-9]+(?:\.0*)?", _without_commas(text)) is not None
