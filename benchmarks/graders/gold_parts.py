"""The parts of a gold answer: its unit, its items, its brackets. variants.py makes other answers of the parts."""

from __future__ import annotations

import re
from dataclasses import dataclass

UNITS = {  # notations of each unit, the plainest first
    "°": ("°", "^\\circ", "^{\\circ}", " degrees", "\\text{ degrees}"),
    "cm": ("cm", " cm", "\\text{ cm}", " centimeters", "厘米"),
    "m": ("m", " m", "\\text{ m}", " meters", "米"),
    "cm²": ("cm²", "cm^2", "cm^{2}", "\\text{ cm}^2", " square centimeters"),
    "m²": ("m²", "m^{2}", "\\text{ m}^2", "平方米"),
    "mm": ("mm", "\\text{ mm}"),
    "n mile": ("海里",),
    "h": ("小时", " hours", "\\text{ h}"),
    "s": ("秒", " seconds", "\\text{ s}"),
    "%": ("%", "\\%", " \\%"),
    "$": ("\\text{ dollars}",),
}
_FORMS = [("cm^2^", "cm²"), *((form, unit) for unit, forms in UNITS.items() for form in forms)]
_LONGEST_FIRST = sorted(_FORMS, key=lambda pair: -len(pair[0]))


@dataclass(frozen=True)
class Gold:
    """The parts of a gold answer."""

    text: str  # without dollar signs
    core: str  # without its unit
    unit: str
    items: tuple[str, ...]  # of a list or a tuple, else empty
    ends: tuple[str, str]  # the brackets of a tuple or an interval
    words: bool  # whether it is a word instead of a formula


def parse_gold(gold: str, *, metres: bool) -> Gold:
    """Split a gold answer into its parts; `metres`: whether a bare m after a value is the unit, as in GeoQA."""
    text = gold.strip().replace("$", "") if "\\$" not in gold else gold.strip()
    words = re.fullmatch(r"(?:\\text\{\(?([A-Za-z]+)\)?\})|[A-Za-z]{3,}", text) is not None
    if text.startswith("\\$"):
        core, unit = text[2:].strip(), "$"
    else:
        core, unit = _split_unit(text, metres)
    ends = ("", "")
    inner = core
    bare = core.replace("\\left", "").replace("\\right", "").strip()
    if bare[:1] in ("(", "[") and bare[-1:] in (")", "]") and _depths(bare)[:-1].count(0) == 0:
        ends, inner = (bare[0], bare[-1]), bare[1:-1]
    items = tuple(part.strip() for part in _split(inner))
    if (
        re.search(r"[0-9],(?:\\!)? ?[0-9]{3}(?![0-9])", core)
        or "\\in" in core
        or "\\{" in core
        or words
    ):
        items = ()
    return Gold(text, core, unit, items if len(items) > 1 else (), ends, words)


def _split_unit(text: str, metres: bool) -> tuple[str, str]:
    for form, unit in _LONGEST_FIRST:
        if text.endswith(form) and len(text) > len(form) and (metres or form.strip() != "m"):
            return text[: -len(form)].strip(), unit
    return text, ""


def _depths(text: str) -> list[int]:
    depth = 0
    return [depth := depth + (c in "([{") - (c in ")]}") for c in text]


def _split(text: str) -> list[str]:
    parts = [""]
    for c, depth in zip(text, _depths(text), strict=True):
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts
