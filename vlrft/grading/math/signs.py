"""Unicode signs of mathematics as LaTeX: `x²³` is `x^{23}`, `∛8` is `\\sqrt[3] 8`, `1⁄2` is `1/2`."""

from __future__ import annotations

import re

_SIGNS = {
    "−": "-", "–": "-", "‐": "-", "‑": "-", "﹣": "-", "＋": "+", "＝": "=", "×": r"\cdot ", "·": r"\cdot ", "⋅": r"\cdot ",
    "∙": r"\cdot ", "•": r"\cdot ", "*": r"\cdot ", "∗": r"\cdot ", "÷": "/", "⁄": "/", "∕": "/", "√": r"\sqrt ",
    "∛": r"\sqrt[3] ", "∜": r"\sqrt[4] ", "∞": r"\infty ", "≤": "≤", "⩽": "≤", "≦": "≤", "≥": "≥", "⩾": "≥", "≧": "≥",
    "±": "±", "∓": "∓", "∪": r"\cup ", "∈": r"\in ", "°": r"^\circ ", "º": r"^\circ ", "˚": r"^\circ ", "′": "'",
    "’": "'", "″": "''", "，": ",", "；": ";", "：": ":", "（": "(", "）": ")", "％": "%", "∶": ":", "∣": "|", "｜": "|",
    "⟨": r"\langle ", "⟩": r"\rangle ", "〈": r"\langle ", "〉": r"\rangle ", "\u00a0": " ", "\u2061": " ", "\u2062": " ",
    "π": r"\pi ", "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "δ": r"\delta ", "θ": r"\theta ", "ε": r"\epsilon ",
    "λ": r"\lambda ", "μ": r"\mu ", "µ": r"\mu ", "ω": r"\omega ", "φ": r"\phi ", "ϕ": r"\phi ", "σ": r"\sigma ",
    "ρ": r"\rho ", "τ": r"\tau ", "η": r"\eta ", "κ": r"\kappa ", "ν": r"\nu ", "ξ": r"\xi ", "χ": r"\chi ", "ψ": r"\psi ",
    "Γ": r"\Gamma ", "Δ": r"\Delta ", "Θ": r"\Theta ", "Λ": r"\Lambda ", "Σ": r"\Sigma ", "Φ": r"\Phi ", "Ψ": r"\Psi ",
    "Ω": r"\Omega ", "ℓ": r"\ell ", "ħ": r"\hbar ", "ℏ": r"\hbar ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R}",
    "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}", "ℚ": r"\mathbb{Q}", "ℂ": r"\mathbb{C}",
    "∠": r"\angle ", "△": r"\triangle ", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ",
}  # fmt: skip
_FRACTIONS = {
    "½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5), "⅗": (3, 5), "⅘": (4, 5),
    "⅙": (1, 6), "⅚": (5, 6), "⅐": (1, 7), "⅛": (1, 8), "⅜": (3, 8), "⅝": (5, 8), "⅞": (7, 8), "⅑": (1, 9), "⅒": (1, 10),
}  # fmt: skip
_ONE_FOR_ONE = _SIGNS | {sign: rf"\frac{{{a}}}{{{b}}}" for sign, (a, b) in _FRACTIONS.items()}
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱˣʸᵏᵐ", "0123456789+-()nixykm")
_LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋₍₎ₙᵢₓₖₘ", "0123456789+-()nixkm")
_RAISED_RUN = re.compile("[" + "".join(map(chr, _RAISED)) + "]+")
_LOWERED_RUN = re.compile("[" + "".join(map(chr, _LOWERED)) + "]+")
_SMALL_FRACTION = re.compile("([⁰¹²³⁴⁵⁶⁷⁸⁹]+)[⁄∕/]([₀₁₂₃₄₅₆₇₈₉]+)")


def to_latex(text: str) -> str:
    """The text with its Unicode signs written in LaTeX. Linear in the text."""
    if text.isascii():
        return text.replace("*", r"\cdot ")
    text = _SMALL_FRACTION.sub(_small_fraction, text)
    text = _RAISED_RUN.sub(lambda run: f"^{{{run[0].translate(_RAISED)}}}", text)
    text = _LOWERED_RUN.sub(lambda run: f"_{{{run[0].translate(_LOWERED)}}}", text)
    return "".join(_ONE_FOR_ONE.get(character, character) for character in text)


def _small_fraction(match: re.Match[str]) -> str:
    top, bottom = match[1].translate(_RAISED), match[2].translate(_LOWERED)
    return rf"\frac{{{top}}}{{{bottom}}}"
