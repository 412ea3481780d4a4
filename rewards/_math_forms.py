"""The normal forms of an answer in the released code of the MATH data set: mathruler's, and oat's with more units."""

from __future__ import annotations

import re
from collections.abc import Callable

from ._prm800k import unwrap_text

# The words that oat takes for units, in its order (from MathQA; a full stop matches any character), then with an s.
_WORDS = (
    "east|degree|mph|kmph|ft|m sqaure| m east|sq m|deg|mile|q .|monkey|prime|ratio|profit of rs|rd"
    "|o|gm|p . m|lb|tile|per|dm|lt|gain|ab|way|west|a .|b .|c .|d .|e .|f .|g .|h .|t|a|h"
    "|no change|men|soldier|pie|bc|excess|st|inches|noon|percent|by|gal|kmh|c|acre|rise|a . m|th"
    "|π r 2|sq|mark|l|toy|coin|sq . m|gallon|° f|profit|minw|yr|women|feet|am|pm|hr|cu cm|square"
    "|v â € ™|are|rupee|rounds|cubic|cc|mtr|s|ohm|number|kmph|day|hour|minute|min|second|man|woman"
    "|sec|cube|mt|sq inch|mp|∏ cm ³|hectare|more|sec|unit|cu . m|cm 2|rs .|rs|kg|g|month|km|m|cm"
    "|mm|apple|liter|loss|yard|pure|year|increase|decrease|d|less|Surface|litre|pi sq m|s .|metre"
    "|meter|inch"
)
_UNITS = tuple(
    re.compile(rf"(^|\W){word}{ending}($|\W)") for ending in ("", "s") for word in _WORDS.split("|")
)
_ARRAY = re.compile(r"\\begin\{array\}\{[^}\n]*\}")
_LAST_TEXT = "\\text{"


def mathruler_form(text: str) -> str:
    """The normal form of the MATH data set (Hendrycks et al. 2021), percent signs removed."""
    return _normal_form(text, _same, _same, ("\\%", "%"))


def oat_form(text: str) -> str:
    """That form with one name for matrices and relations, and without words that may be units, such as `a` and `t`."""
    return _normal_form(text, _one_name, _without_units, ("\\%",))


def _normal_form(
    text: str, rename: Callable[[str], str], trim: Callable[[str], str], percent: tuple[str, ...]
) -> str:
    """`rename` and `trim`: what a release adds before and after the commands of typesetting are removed. As released,
    an answer with a broken fraction or root, or with two units in `\\text{ …}`, is left as it is."""
    text = original = _unwrap(text.strip())
    text = rename(text.replace("\n", "").replace("\\!", "").replace("\\\\", "\\"))
    text = text.replace("tfrac", "frac").replace("dfrac", "frac")
    text = trim(text.replace("\\left", "").replace("\\right", ""))
    for removed in ("^{\\circ}", "^\\circ", "\\$"):
        text = text.replace(removed, "")
    if text.count("\\text{ ") > 1:
        return original
    text = text.partition("\\text{ ")[0]
    for removed in percent:
        text = text.replace(removed, "")
    text = text.replace(" .", " 0.").replace("{.", "{0.")
    text = f"0{text}" if text.startswith(".") else text
    name, sign, value = text.partition("=")
    if sign and "=" not in value and len(name) <= 2:
        text = value
    try:
        text = _with_fractions(_with_roots(text).replace(" ", ""))
    except IndexError:
        return original
    return "\\frac{1}{2}" if text == "0.5" else _with_slash(text)


def _unwrap(text: str) -> str:
    inner = unwrap_text(text)
    return text if inner is text else inner.strip()


def _same(text: str) -> str:
    return text


def _one_name(text: str) -> str:
    text = _ARRAY.sub(r"\\begin{pmatrix}", text).replace("\\end{array}", "\\end{pmatrix}")
    text = text.replace("bmatrix", "pmatrix")
    return text.replace("\\neq", "\\ne").replace("\\leq", "\\le").replace("\\geq", "\\ge")


def _without_units(text: str) -> str:
    start = text.find(_LAST_TEXT)
    before = text[:start] if start >= 0 and text.endswith("}") else text
    text = before.strip() or text
    for unit in _UNITS * 2:
        text = unit.sub(r"\1\2", text) or text
    return text


def _with_roots(text: str) -> str:
    """`\\sqrt3` as `\\sqrt{3}`. Raises IndexError for a root of nothing."""
    head, *roots = text.split("\\sqrt")
    return "\\sqrt".join(
        [head, *(root if root[0] == "{" else f"{{{root[0]}}}{root[1:]}" for root in roots)]
    )


def _with_fractions(text: str) -> str:
    """`\\frac12` as `\\frac{1}{2}` and `\\frac1{72}` as `\\frac{1}{72}`, but not `\\frac{72}1`. Raises IndexError for a
    fraction of nothing."""
    head, *fractions = text.split("\\frac")
    parts = [head]
    for fraction in fractions:
        if fraction[0] == "{":
            parts.append(fraction)
        elif len(fraction) < 2:
            return text
        elif fraction[1] == "{":
            parts.append(f"{{{fraction[0]}}}{fraction[1:]}")
        else:
            parts.append(f"{{{fraction[0]}}}{{{fraction[1]}}}{fraction[2:]}")
    return "\\frac".join(parts)


def _with_slash(text: str) -> str:
    """`3/4` as `\\frac{3}{4}`."""
    numerator, slash, denominator = text.partition("/")
    try:
        fraction = int(numerator), int(denominator)
    except ValueError:
        return text
    return (
        "\\frac{{{}}}{{{}}}".format(*fraction)
        if slash and text == "{}/{}".format(*fraction)
        else text
    )
