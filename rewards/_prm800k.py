"""The comparison of answers that mathruler and oat share, after PRM800K and the MATH data set.

Two texts are one when their MATH normal forms are equal, or their PRM800K forms are, or the
difference of these is zero. The original asks sympy, which evaluates the text as Python; here our
own reader and evaluator stand in for it.
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


def same_answer(given: str, gold: str) -> bool:
    """Whether the released comparison takes them for one answer."""
    if _math_form(given) == _math_form(gold):
        return True
    said, known = _plain_form(given), _plain_form(gold)
    if said == known:
        return True
    if not said:
        return False
    parts, others = _elements(known), _elements(said)
    if len(parts) != len(others) or (len(parts) > 1 and known[0] + known[-1] != said[0] + said[-1]):
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
    """LaTeX as plain text: a fraction's parts lose their braces, a root's become parentheses."""
    text = re.sub(r"\\[dt]?frac", r" \\frac", text)
    inner = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
    while True:
        spread = re.sub(rf"\\frac\s*{inner}\s*{inner}", r"\1/\2", text)
        spread = re.sub(rf"\\sqrt\s*{inner}", r"sqrt(\1)", spread)
        spread = re.sub(r"\\sqrt\s*([0-9a-z])", r"sqrt(\1)", spread)
        spread = re.sub(r"\\frac\s*([0-9a-z])\s*([0-9a-z])", r"\1/\2", spread)
        if spread == text:
            break
        text = spread
    for pattern, plain in _SPOKEN:
        text = re.sub(pattern, plain, text)
    return text.strip()


def _whole(text: str) -> str:
    """A text that Python reads as a whole number, as its digits."""
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


def _same_element(known: str, said: str) -> bool:
    if _FRACTION.fullmatch(known) and _FRACTION.fullmatch(said):
        return known == said  # an unreduced fraction is wrong
    if _is_whole(known) != _is_whole(said):
        return False
    difference = f"({known})-({said})"
    letters = set(re.sub("sqrt|frac", "", difference)) & set("abcdefghijklmnopqrstuvwxyzπθ")
    if len(letters) > 2 or _HANGING.search(difference) or set(difference) & set("√π°²³×−"):
        return False
    return equal_formulas(known, said)


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"[+-]?[0-9]+(?:\.0*)?", _without_commas(text)) is not None
