"""The documentation's pages as tests read them: blocks of code, files, commands, links."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

from PIL import Image

from vlrft.plugins.references import load_file

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")))
ONE_STEP = ("stages.0.steps=1", "stages.0.prompts_per_step=4", "stages.1.prompts_per_step=2")
SMALL = ("eval.limit=4", "rollout.group_size=2", "rollout.max_tokens=4", "policy.build.layers=1")
SHORT_RUN = (*ONE_STEP, "stages.1.steps=1", "log.zero_reward_steps=0", *SMALL)
"""Overrides that cut a run of two stages short."""


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


def command(page: str, words: str) -> list[str]:
    """The arguments of the page's only command that contains the words."""
    (arguments,) = [c[1:] for c in commands(page) if words in " ".join(c)]
    return arguments


def prose(page: str) -> str:
    """The page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page, flags=re.S | re.M)


def write_files(page: str, folder: Path) -> None:
    for name, text in files(page).items():
        (folder / name).write_text(text, encoding="utf-8")


def run_suite(path: Path) -> int:
    """Runs the tests of a conformance suite's subclass in a file; returns how many there are."""
    sys.path.insert(0, str(path.parent))
    try:
        module = load_file(path)
    finally:
        sys.path.remove(str(path.parent))
    (suite,) = [kind for name, kind in vars(module).items() if name.startswith("Test")]
    names = [name for name in dir(suite) if name.startswith("test_")]
    for name in names:
        getattr(suite(), name)()
    return len(names)


def write_images(folder: Path, question: str, answer: str) -> None:
    """Four rows a split, in `.jsonl` files with the given names of the columns, and their images."""
    folder.mkdir()
    for split in ("train", "test"):
        rows = []
        for colour in ("red", "blue", "white", "black"):
            Image.new("RGB", (56, 56), colour).save(folder / f"{colour}.png")
            rows.append({"image": f"{colour}.png", question: "Which?", answer: colour})
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{split}.jsonl").write_text(lines)
