"""What the pages of the documentation show: blocks of code, files, commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]


def read_page(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.S | re.M)


def files(page: str) -> dict[str, str]:
    """Python and YAML blocks by the names in their first comments."""
    every = [*blocks(page, "python"), *blocks(page, "yaml")]
    return {m[1]: text for text in every if (m := re.match(r"# ([\w.]+)", text))}


def commands(page: str) -> list[list[str]]:
    """`vlrft …` as a shell splits it."""
    lines = [line for b in blocks(page, "sh") for line in b.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("vlrft")]


def write_files(page: str, folder: Path) -> None:
    for name, text in files(page).items():
        (folder / name).write_text(text, encoding="utf-8")
