"""Markdown of the generated pages: docstrings as prose, text in table cells."""

from __future__ import annotations

import inspect
import re
import textwrap

GENERATED = "Made by `make docs` from the code; change its docstrings, not this page."


def prose(doc: str) -> str:
    """A docstring as Markdown: indented blocks and examples as code, the rest as text."""
    parts = []
    for paragraph in inspect.cleandoc(doc).split("\n\n"):
        code = paragraph.startswith((">>>", "    "))
        parts.append(f"```python\n{textwrap.dedent(paragraph)}\n```" if code else escape(paragraph))
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Markdown's and HTML's special characters as they are, outside of code."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(
        piece if piece.startswith("`") else re.sub(r"([*<\[])", r"\\\1", piece) for piece in pieces
    )


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
