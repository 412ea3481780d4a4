"""Splits an answer into tokens: LaTeX, Unicode signs and plain typing become one notation.

Tokens are numbers (`12`, `3.5`, `4e33`), letters, commands (`\\frac`), signs, and texts: `"cm` is the content of
`\\text{…}`, or a name that only units have. Linear in the text.
"""

from __future__ import annotations

import re

from vlrft.grading.math.units import MARKED, POWERS, UNITS

_SIGNS = {
    "−": "-", "–": "-", "×": r"\cdot ", "·": r"\cdot ", "⋅": r"\cdot ", "*": r"\cdot ", "÷": "/", "√": r"\sqrt ",
    "∞": r"\infty ", "≤": "≤", "≥": "≥", "±": "±", "∓": "∓", "∪": r"\cup ", "∈": r"\in ", "°": r"^\circ ",
    "º": r"^\circ ", "²": "^2", "³": "^3", "′": "'", "″": "''", "，": ",", "（": "(", "）": ")", "\u00a0": " ",
    "π": r"\pi ", "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "δ": r"\delta ", "θ": r"\theta ",
    "λ": r"\lambda ", "μ": r"\mu ", "ω": r"\omega ", "φ": r"\phi ", "σ": r"\sigma ", "ρ": r"\rho ", "τ": r"\tau ",
    "½": r"\frac12", "∠": r"\angle ", "△": r"\triangle ", "≈": "=", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ",
}  # fmt: skip
_SAME = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "times": "cdot", "ast": "cdot", "div": "/",
    "le": "≤", "leq": "≤", "leqslant": "≤", "ge": "≥", "geq": "≥", "geqslant": "≥", "lt": "<", "gt": ">",
    "approx": "=", "ne": "≠", "neq": "≠", "pm": "±", "mp": "∓", "dbinom": "binom", "tbinom": "binom", "lvert": "|",
    "rvert": "|", "vert": "|", "mid": "|", "lbrace": r"\{", "rbrace": r"\}", "prime": "'", "degree": "^\\circ",
    "arccos": "acos", "arcsin": "asin", "arctan": "atan", "operatorname": "mathrm", "mbox": "text",
    "textrm": "text", "textbf": "text", "textit": "text", "hbox": "text", "mathbf": "mathrm", "mathit": "mathrm",
    "rm": "", "bf": "", "left": "", "right": "", "big": "", "Big": "", "bigl": "", "bigr": "", "Bigl": "",
    "Bigr": "", "displaystyle": "", "quad": "", "qquad": "", "limits": "", "varepsilon": "epsilon", "varnothing": r"\emptyset",
    "lg": "log", "or": ",", "land": ",", "lor": ",",
}  # fmt: skip
_FUNCTIONS = {
    "sin",
    "cos",
    "tan",
    "cot",
    "sec",
    "csc",
    "log",
    "ln",
    "exp",
    "sqrt",
    "asin",
    "acos",
    "atan",
}
_NAMES = {
    name: "\\" + _SAME.get(name, name)
    for name in (*_FUNCTIONS, "arcsin", "arccos", "arctan", "pi", "infty", "theta", "alpha", "beta", "lambda")
} | {"inf": r"\infty", "infinity": r"\infty"}  # fmt: skip
_JOINERS = {"and", "or", ",", "且", "或", "和"}

_BETWEEN = {"to": ":", "per": "/"}

_SPACES = re.compile(r"(?<!\\)\\[!,;: >]|~")
_PRIMES = re.compile(r"\^\s*(?:\{\s*)?((?:\\prime\s*)+)\}?")
_ROW_GAP = re.compile(r"(\\\\)\s*\[\s*-?[0-9.]{1,8}\s*(?:pt|em|ex|mm|cm|in)\s*\]")
_THOUSANDS = re.compile(r"(?<=[0-9])(?:,\\!\s*|\{,\}\s*|\\,)(?=[0-9]{3}(?![0-9]))")
_TEXT = re.compile(r"\\(?:text|mbox|textrm|textbf|textit|hbox|mathrm|mathbf|rm)\s*\{([^{}\\]*)\}")
_TOKEN = re.compile(
    r'"[^"]*"'
    r"|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+(?![0-9.^_{]))?|\.[0-9]+"
    r"|\\begin\s*\{[a-z]*\}|\\end\s*\{[a-z]*\}|\\[a-zA-Z]+|\\[{}\\%$|]"
    r"|[a-zA-Z]+|[\u4e00-\u9fff]+|\*\*|<=|>=|!=|\s+|[-+/^_=<>!|(){}\[\],;:.'%&±∓≤≥≠€£]"
)


def tokenize(text: str, *, units: bool = True) -> list[str] | None:
    """The text's tokens, without white space, dollar signs and typesetting; None when the text contains a character
    that no answer does.

    With `units`, a run of letters that names a unit (`cm`) is one text; without, it is a product.
    """
    tokens: list[str] = []
    text = _normalise(text)
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            return None
        parts = _token(match[0], units)
        if parts != [","] or match[0] == "," or tokens[-1:] != [","]:  # `1, 2, and 3`
            tokens += parts
        place = match.end()
    while tokens and tokens[-1] in (".", ",", ";"):
        tokens.pop()
    return tokens


def strip_typesetting(text: str) -> str:
    """The text without typesetting, as a person would read it aloud."""
    bare = _TEXT.sub(r" \1 ", text.replace("$", " "))
    return re.sub(r"\\[!,;: ]|\\quad", " ", bare).strip().rstrip(".").strip()


def _normalise(text: str) -> str:
    text = text.replace("\\$", "€$€")  # a currency, not a delimiter
    text = text.replace("$", " ") if "€$€" not in text else re.sub(r"(?<!€)\$(?!€)", " ", text)
    text = text.replace("€$€", '"$"')
    text = _ROW_GAP.sub(r"\1", text).replace("{:}", ":")
    for pair in (r"\(", r"\)", r"\[", r"\]"):
        text = text.replace(pair, " ")
    text = text.replace(r"\%", "%").replace("\\\\", " \\\\ ").replace("**", "^").replace(r"\|", "|")
    text = _PRIMES.sub(lambda m: "'" * m[1].count("prime"), _THOUSANDS.sub("", text))
    text = "".join(_SIGNS.get(character, character) for character in text)
    return _TEXT.sub(lambda m: f'"{m[1]}"', _SPACES.sub(" ", text))


def _token(raw: str, units: bool) -> list[str]:
    if raw.isspace():
        return []
    if raw.startswith('"'):
        return _text_tokens(raw.strip('"'))
    if raw.startswith("\\"):
        name = raw[1:]
        same = _SAME.get(name)
        if same is None:
            return ["".join(raw.split())]
        if same in (
            "frac",
            "cdot",
            "binom",
            "epsilon",
            "acos",
            "asin",
            "atan",
            "log",
            "mathrm",
            "text",
        ):
            return ["\\" + same]
        return ["^", r"\circ"] if same == "^\\circ" else [same] if same else []
    if raw[0].isalpha():
        return _letters(raw, units)
    return [{"<=": "≤", ">=": "≥", "!=": "≠"}.get(raw, raw)]


def _text_tokens(content: str) -> list[str]:
    """The content of `\\text{…}`: a joining word is a separator, an upright letter that names no unit is a symbol, the
    rest is one text (or nothing)."""
    content = " ".join(content.split())
    if content.casefold() in _JOINERS:
        return [","]
    if content in _BETWEEN:
        return [_BETWEEN[content]]
    if len(content) == 1 and content.isascii() and content.isalpha() and content not in MARKED:
        return [content]
    return ['"' + content] if content else []


def _letters(run: str, units: bool) -> list[str]:
    if run in _NAMES:
        return [_NAMES[run]]
    if run.casefold() in _JOINERS:
        return [","]
    if units and run in _BETWEEN:
        return [_BETWEEN[run]]
    if not run.isascii() or (units and (run in UNITS or run in POWERS or run == "m")):
        return ['"' + run]
    return list(run)
