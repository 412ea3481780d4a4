"""LaTeX as plain text, as mathruler and oat read it before they compare answers.

Both use pylatexenc's `latex2text`; this gives the same text for what answers contain, for the commands listed here. A
command that it does not know leaves its arguments: `\\textbf{A}` is `A`.
"""

from __future__ import annotations

import re
import unicodedata

_TOKEN = re.compile(r"\\[a-zA-Z]+\s*|\\.|---?|``|''|.", re.DOTALL)

_SYMBOLS = (
    "alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι "
    "kappa κ lambda λ mu μ nu ν xi ξ pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ "
    "upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π "
    "Sigma Σ Phi Φ Psi Ψ Omega Ω hbar ħ ell ℓ nabla ∇ partial ∂ aleph ℵ infty ∞ pm ± mp ∓ "
    "times × div ÷ cdot · ast ∗ star ⋆ circ ∘ bullet ∙ oplus ⊕ otimes ⊗ cup ∪ cap ∩ bigcup ⋃ "
    "bigcap ⋂ in ∈ notin ∉ ni ∋ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ subsetneq ⊊ setminus ∖ "
    "emptyset ∅ varnothing ∅ le ≤ leq ≤ ge ≥ geq ≥ leqslant ⩽ geqslant ⩾ neq ≠ ll ≪ gg ≫ "
    "approx ≈ sim ∼ simeq ≃ cong ≅ equiv ≡ propto ∝ perp ⊥ parallel ∥ angle ∠ square □ forall ∀ "
    "exists ∃ lnot ¬ wedge ∧ vee ∨ mid | vert | lvert | rvert | to → rightarrow → leftarrow ← "
    "Rightarrow ⇒ Leftrightarrow ⇔ leftrightarrow ↔ mapsto ↦ therefore ∴ because ∵ langle ⟨ "
    "rangle ⟩ lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ lbrace { rbrace } sum ∑ prod ∏ int ∫ prime ' "
    "surd √ dots … ldots … cdots ⋯ textdegree ° texteuro €"
)
_FUNCTIONS = "sin cos tan arcsin arccos arctan sinh cosh tanh ln log exp max min sup inf lim"
_PLAIN = dict(zip(_SYMBOLS.split()[::2], _SYMBOLS.split()[1::2], strict=True)) | {
    **{name: name for name in _FUNCTIONS.split()},
    **{character: character for character in "{}_&#%$"},
    **dict.fromkeys((",", ";", ":", " ", "quad", "qquad"), " "),
    "\\": "\n",
    "[": "\n",
    "]": "\n",
    "-": "\xad",
}
_SPECIALS = {
    "~": "\xa0",
    "--": "–",
    "---": "—",
    "``": "“",
    "''": "”",
    "&": "   ",
    "}": "",
    "\\": "",
}
_HIDDEN = {"mbox", "texttt", "textsf", "textup", "hphantom", "hspace", "vspace", "color", "textcolor"}  # fmt: skip
_ACCENTS = {"vec": "\u20d7", "hat": "\u0302", "bar": "\u0305", "tilde": "\u0303", "dot": "\u0307", "ddot": "\u0308"}  # fmt: skip
_ALPHABETS = {
    "mathbf": "MATHEMATICAL BOLD",
    "mathit": "MATHEMATICAL ITALIC",
    "mathbb": "MATHEMATICAL DOUBLE-STRUCK",
    "mathcal": "MATHEMATICAL SCRIPT",
    "mathfrak": "MATHEMATICAL FRAKTUR",
    "mathsf": "MATHEMATICAL SANS-SERIF",
    "mathtt": "MATHEMATICAL MONOSPACE",
}
_LETTERLIKE = dict(zip("CHNPQRZ", "ℂℍℕℙℚℝℤ", strict=True))  # double-struck, from an older block
_MATRICES = {"array", "pmatrix", "bmatrix", "smallmatrix"}


def latex_to_text(text: str) -> str:
    """The text without LaTeX. Raises ValueError where an argument is missing, and RecursionError."""
    tokens = _TOKEN.findall(text)
    tokens.reverse()
    pieces = []
    while tokens:
        pieces.append(_read(tokens))
    return "".join(pieces)


def _read(tokens: list[str]) -> str:
    """The text of the next token with its arguments, which are removed from the end of the list."""
    token = tokens.pop()
    if token == "{":
        return _read_until(tokens, "}")
    if len(token) < 2 or token[0] != "\\":
        return _SPECIALS.get(token, token)
    name = token[1:].rstrip() if token[1].isalpha() else token[1:]
    if name in ("frac", "nicefrac"):
        return f"{_argument(tokens)}/{_argument(tokens)}"
    if name == "sqrt":
        _skip_option(tokens)
        return f"√({_argument(tokens)})"
    if name == "begin":
        return _environment(tokens)
    if name == "\\":
        _skip_option(tokens)
    if name == "end" or name in _HIDDEN:
        _argument(tokens)
    if name in _ACCENTS:
        accented = "".join(character + _ACCENTS[name] for character in _argument(tokens))
        return unicodedata.normalize("NFC", accented)
    if name in _ALPHABETS:
        return "".join(_in_alphabet(character, name) for character in _argument(tokens))
    return _PLAIN.get(name, "")


def _read_until(tokens: list[str], closing: str) -> str:
    pieces = []
    while tokens and tokens[-1] != closing:
        pieces.append(_read(tokens))
    if tokens:
        tokens.pop()
    return "".join(pieces)


def _skip_space(tokens: list[str]) -> None:
    while tokens and tokens[-1].isspace():
        tokens.pop()


def _skip_option(tokens: list[str]) -> None:
    _skip_space(tokens)
    if tokens and tokens[-1] == "[":
        _read_until(tokens, "]")


def _argument(tokens: list[str]) -> str:
    """A group, a command or a character."""
    _skip_space(tokens)
    if not tokens:
        raise ValueError("an argument is missing")
    return _read(tokens)


def _environment(tokens: list[str]) -> str:
    """`[ 1 2; 3 4 ]` for a matrix; lines for another environment."""
    name = _argument(tokens)
    if name == "array":
        _argument(tokens)  # the columns
    rows: list[list[list[str]]] = [[[]]]
    while tokens and tokens[-1].rstrip() != "\\end":
        if tokens[-1] == "&":
            rows[-1].append([])
            tokens.pop()
        elif tokens[-1] == "\\\\":
            rows.append([[]])
            _read(tokens)
        else:
            rows[-1][-1].append(_read(tokens))
    if tokens:
        _read(tokens)
    cells = [["".join(cell) for cell in row] for row in rows]
    if name in _MATRICES:
        return f"[ {'; '.join(' '.join(map(str.strip, row)) for row in cells)} ]"
    return "\n".join("   ".join(row) for row in cells)


def _in_alphabet(character: str, name: str) -> str:
    if not (character.isascii() and character.isalpha()):
        return character
    if name == "mathbb" and character in _LETTERLIKE:
        return _LETTERLIKE[character]
    size = "CAPITAL" if character.isupper() else "SMALL"
    try:
        return unicodedata.lookup(f"{_ALPHABETS[name]} {size} {character.upper()}")
    except KeyError:  # a letter of an older block: italic h, script B
        return character
