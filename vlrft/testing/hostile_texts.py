"""Hostile texts from seeds: deep nesting, long runs, control characters, half-finished markup, broken Unicode.

    text = hostile_text(Random(7), 20_000)      # at most 20,000 characters

For graders, parsers and readers of tables: whatever text they get, they end soon and raise only their documented errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

OPENERS = (
    "(",
    "[",
    "{",
    "\\{",
    "\\left(",
    "\\sqrt{",
    "\\frac{",
    "|",
    "\\lfloor ",
    "-",
    "\\text{",
    "(1,",
)
CLOSERS = {"(": ")", "[": "]", "{": "}", "|": "|", "-": "", "(1,": "1)"}
TAGS = (
    *(
        "<answer>",
        "</answer>",
        "<think>",
        "</think>",
        "\\boxed{",
        "\\fbox{",
        "}",
        "$",
        "$$",
        "\\(",
        "\\)",
    ),
    *(
        "<|im_end|>",
        "<|im_start|>",
        "<|image_pad|>",
        "<|vision_start|>",
        "<|endoftext|>",
        "<tool_call>",
    ),
)
PIECES = (
    *("1", "0", "-", "+", "=", "^", "_", "/", "\\frac", "\\sqrt", "\\pi", "e", "x", "\\infty", "\\pm", "!", "%"),
    *(" ", "\n", "\t", "\r", "\u00a0", "\u2028", "\u200b", "\ufeff", ",", ";", ".", "1e309", "NaN", "9" * 400),
    *("\x00", "\x1b[31m", "\x1b]0;owned\x07", "\u202e", "\ud800", "é", "ﬁ", "½", "²", "٣", "𝟚", "∞", "中"),
    *("\\text{", "\\begin{matrix}", "\\end{matrix}", "&", "\\\\", "\\left", "\\right", "^{2^{2^{99}}}", "10^{10^{10}}"),
    *("\\int_0^1", "\\sum_{n=1}^{10^9}", "\\lim", "\\arcsin", "\\lfloor", "\\rfloor", "'", '"', "#", "&lt;"),
    *("(1,2),(3,4)", "[{'Position': [0, 0, 1, 1], 'Confidence': 1}]", "A", "(B)", "left", "import os", "__class__"),
)  # fmt: skip


def hostile_text(random: Random, limit: int = 2000) -> str:
    """A text of at most `limit` characters, of one of several kinds of attack or a mixture of them."""
    size = int(2 ** random.uniform(0, limit.bit_length()))
    kind = random.randrange(6)
    if kind == 0:
        text = nest(random, size)
    elif kind == 1:
        text = random.choice((*TAGS, *PIECES)) * size
    elif kind == 2:
        text = join_random(random, TAGS, size)
    elif kind == 3:
        text = join_random(random, PIECES, min(size, 60))
    elif kind == 4:
        characters = (
            chr(random.choice((random.randrange(128), random.randrange(0x2FFF))))
            for _ in range(size)
        )
        text = "".join(characters)
    else:
        text = join_random(random, (*TAGS, *PIECES), min(size, 200))
    return text[:limit]


def hostile_answer(random: Random, limit: int = 20_000) -> str:
    """A completion with a hostile answer, in the markup from which graders read answers more often than not."""
    text = hostile_text(random, limit)
    form = random.randrange(6)
    if form == 0:
        return text
    if form in (1, 2):
        return f"<think>{hostile_text(random, 50)}</think><answer>{text[:1990]}</answer>"
    if form == 3:
        return f"\\boxed{{{text[:1990]}}}"
    if form == 4:
        return f"<think></think><answer>${text[:1900]}$</answer>"
    return f"{text}<answer>{hostile_text(random, 100)}</answer>"


def mutate(random: Random, text: str, edits: int = 3) -> str:
    """The text with some parts replaced, removed, doubled or moved."""
    for _ in range(random.randint(1, edits)):
        start = random.randint(0, len(text))
        end = min(len(text), start + int(2 ** random.uniform(0, 6)))
        piece = random.choice((random.choice(PIECES), random.choice(TAGS), text[start:end] * 2, ""))
        text = text[:start] + piece + text[end:]
    return text


def nest(random: Random, size: int) -> str:
    """Brackets in brackets, closed or not, around something small."""
    opener = random.choice(OPENERS)
    closer = CLOSERS.get(opener, "}")
    depth = max(1, size // len(opener + closer))
    inner = random.choice(("", "1", "x", ",", "1,2"))
    return opener * depth + inner + closer * (depth if random.random() < 0.7 else depth // 2)


def join_random(random: Random, parts: Sequence[str], count: int) -> str:
    return "".join(random.choice(parts) for _ in range(count))
