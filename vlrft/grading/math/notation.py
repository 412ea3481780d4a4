"""Splits an answer into tokens: LaTeX, Unicode signs and plain typing become one notation.

Tokens are numbers (`12`, `3.5`, `4e33`), letters, commands (`\\frac`), signs, and texts: `"cm` is the content of
`\\text{…}`, or a name that only units have. Linear in the text.
"""

from __future__ import annotations

import re

from vlrft.grading.math.signs import to_latex
from vlrft.grading.math.unit_names import MARKED, POWERS, UNITS, UNMARKED_M
from vlrft.grading.reading import MAX_ANSWER

_UNSEEN = """
    rm bf it left right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr displaystyle textstyle
    scriptstyle quad qquad limits nolimits boxed fbox underline ensuremath mathop mathstrut strut thinspace enspace space
"""
_SAME = {
    "dfrac": r"\frac", "tfrac": r"\frac", "cfrac": r"\frac", "nicefrac": r"\frac", "times": r"\cdot", "ast": r"\cdot",
    "cdotp": r"\cdot", "bullet": r"\cdot", "div": "/", "le": "≤", "leq": "≤", "leqslant": "≤", "leqq": "≤", "ge": "≥",
    "geq": "≥", "geqslant": "≥", "geqq": "≥", "lt": "<", "gt": ">", "approx": "≈", "approxeq": "≈", "simeq": "≈", "ne": "≠",
    "neq": "≠", "pm": "±", "mp": "∓", "dbinom": r"\binom", "tbinom": r"\binom", "lvert": "|", "rvert": "|", "vert": "|",
    "mid": "|", "colon": ":", "lbrace": r"\{", "rbrace": r"\}", "lbrack": "[", "rbrack": "]", "lparen": "(", "rparen": ")", "langle": "(", "rangle": ")", "backslash": r"\setminus",
    "prime": "'", "varepsilon": r"\epsilon", "varnothing": r"\emptyset",
    "arcsin": r"\asin", "arccos": r"\acos", "arctan": r"\atan", "arccot": r"\acot", "arcsec": r"\asec", "arccsc": r"\acsc",
    "operatorname": r"\mathrm", "mathbf": r"\mathrm", "mathit": r"\mathrm", "mathsf": r"\mathrm", "mathtt": r"\mathrm",
    "mathnormal": r"\mathrm", "boldsymbol": r"\mathrm", "bm": r"\mathrm", "pmb": r"\mathrm",
    "mbox": r"\text", "hbox": r"\text", "textrm": r"\text", "textbf": r"\text", "textit": r"\text",
    "or": ",", "land": "∧", "lor": ",", "wedge": "∧", "vee": ",",
} | dict.fromkeys(_UNSEEN.split(), "")  # fmt: skip
_INVERSE = {
    f"{arc}{name}": f"\\a{name}" for arc in ("arc", "ar", "a") for name in ("sinh", "cosh", "tanh")
}
_PLAIN = "sin cos tan cot sec csc sinh cosh tanh log ln exp sqrt asin acos atan pi infty theta alpha beta lambda"
_NAMES = (
    {name: "\\" + name for name in _PLAIN.split()}
    | {name: _SAME[name] for name in ("arcsin", "arccos", "arctan", "arccot", "arcsec", "arccsc")}
    | {"inf": r"\infty", "infinity": r"\infty"}
    | _INVERSE
)
AND = "∧"  # a separator, as the comma is; of two inequalities, both hold
_JOINERS = {"or": ",", ",": ",", "或": ",", "and": AND, "且": AND, "和": ","}
MAX_LATEX = 4 * MAX_ANSWER  # characters, when the Unicode signs are written out

_BETWEEN = {"to": ":", "per": "/"}

_SPACES = re.compile(r"(?<!\\)\\[!,;: >]|~")
_PRIMES = re.compile(r"\^\s*(?:\{\s*)?((?:\\prime\s*)+)\}?")
_ROW_GAP = re.compile(r"(\\\\)\s*\[\s*-?[0-9.]{1,8}\s*(?:pt|em|ex|mm|cm|in)\s*\]")
_THOUSANDS = re.compile(r"(?<=[0-9])(?:,\\!\s*|\{,\}\s*|\\,)(?=[0-9]{3}(?![0-9]))")
TEXT_COMMANDS = r"\\(?:text(?:normal|rm|bf|it|sf|tt|up|md|sc|sl)?|mbox|hbox|emph)"
_TEXT = re.compile(
    rf"(?:{TEXT_COMMANDS}|\\(?:mathrm|mathbf|operatorname\*?|rm|bf))\s*\{{((?:[^{{}}\\]|\^\{{-?[0-9]\}})*)\}}"
)
_INVISIBLE = re.compile(
    r"\\(?:(?:h|v)space\*?|h?phantom|color|textcolor|colorbox)\s*\{[^{}\\]*\}|\\(?:left|right)\s*\.(?![0-9])"
)
_NUMBER_FIRST = re.compile(r"([-+]?[€£]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[/^][0-9]+)?)[ .]*(.*)")
_DOLLARS = re.compile(r"(?<!\\)\$")
_TOKEN = re.compile(
    r'"[^"]*"'
    r"|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+(?![0-9.^_{]))?|\.[0-9]+"
    r"|\\begin\s*\{[a-z]*\}|\\end\s*\{[a-z]*\}|\\[a-zA-Z]+|\\[{}\\%$|]"
    r"|[a-zA-Z]+|[\u4e00-\u9fff]+|\*\*|<=|>=|(?<![0-9)])!=|\s+|[-+/^_=<>!|(){}\[\],;:.'%&±∓≤≥≠≈€£]"
)


def tokenize(text: str, *, units: bool = True) -> list[str] | None:
    """The text's tokens, without white space, dollar signs and typesetting; None when the text contains a character
    that no answer does.

    With `units`, a run of letters that names a unit (`cm`) is one text; without, it is a product.
    """
    tokens: list[str] = []
    text = _normalise(text)
    if len(text) > MAX_LATEX:
        return None
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            return None
        parts = _token(match[0], units)
        if parts not in ([","], [AND]) or match[0] == "," or tokens[-1:] != [","]:
            tokens += parts  # `1, 2, and 3` has two separators
        place = match.end()
    if tokens and tokens[-1] in (".", ",", ";"):
        tokens.pop()
    return tokens


def strip_typesetting(text: str) -> str:
    """The text without typesetting, as a person would read it aloud."""
    bare = _TEXT.sub(r" \1 ", text.replace("$", " "))
    return re.sub(r"\\[!,;: ]|\\quad", " ", bare).strip().removesuffix(".").strip()


def _normalise(text: str) -> str:
    text = _DOLLARS.sub(" ", text).replace(r"\$", '"$"')  # delimiters; a currency
    text = _ROW_GAP.sub(r"\1", text).replace("{:}", ":")
    for pair in (r"\(", r"\)", r"\[", r"\]"):
        text = text.replace(pair, " ")
    text = text.replace(r"\%", "%").replace("\\\\", " \\\\ ").replace("**", "^").replace(r"\|", "|")
    text = _PRIMES.sub(lambda m: "'" * m[1].count("prime"), _THOUSANDS.sub("", text))
    text = _INVISIBLE.sub(" ", _SPACES.sub(" ", to_latex(text)))
    for _ in range(2):  # a text in a text
        text = _TEXT.sub(_mark_text, text)
    return text


def _mark_text(match: re.Match[str]) -> str:
    content = re.sub('["{}]', "", match[1])
    return f'"{content}"'


def _token(raw: str, units: bool) -> list[str]:
    if raw.isspace():
        return []
    if raw.startswith('"'):
        return _text_tokens(raw.strip('"'))
    if raw.startswith("\\"):
        name = raw[1:]
        if name == "degree":
            return ["^", r"\circ"]
        token = (_INVERSE | _SAME).get(name)
        return ["".join(raw.split())] if token is None else [token] if token else []
    if raw[0].isalpha():
        return _letters(raw, units)
    return [{"<=": "≤", ">=": "≥", "!=": "≠"}.get(raw, raw)]


def _text_tokens(content: str) -> list[str]:
    """The content of `\\text{…}`: a joining word is a separator, an upright letter that names no unit is a symbol, a
    number is a number, the rest is one text (or nothing)."""
    content = " ".join(content.split())
    if content in (".", ","):
        return [content]
    if content.casefold() in _JOINERS:
        return [_JOINERS[content.casefold()]]
    if content in _BETWEEN:
        return [_BETWEEN[content]]
    if content in _NAMES:
        return [_NAMES[content]]
    if len(content) == 1 and content.isascii() and content.isalpha() and content not in MARKED:
        return [content]
    if number := _NUMBER_FIRST.fullmatch(content):
        rest = ['"' + number[2]] if number[2] else []
        return [*_TOKEN.findall(number[1]), *rest]
    return ['"' + content] if content else []


def _letters(run: str, units: bool) -> list[str]:
    if run in _NAMES:
        return [_NAMES[run]]
    if run.casefold() in _JOINERS:
        return [_JOINERS[run.casefold()]]
    if units and run in _BETWEEN:
        return [_BETWEEN[run]]
    if units and run == "m":
        return [UNMARKED_M]
    if not run.isascii() or (units and (run in UNITS or run in POWERS or _is_titled_unit(run))):
        return ['"' + run]
    return list(run)


def _is_titled_unit(run: str) -> bool:
    """Whether a word with a capital is a unit, as in `5 Meters`; one of up to three letters may be a product."""
    return len(run) > 3 and run.istitle() and run.casefold() in UNITS
