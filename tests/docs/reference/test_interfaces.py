"""docs/reference/{config,cli,api,metrics}.md are what docs/interfaces.py makes of the code."""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import vlrft
from vlrft.cli.main import parser
from vlrft.config import Config
from vlrft.config.errors import keys_of

DOCS = Path(__file__).parents[3] / "docs"
STAGE_KEYS = "stages.(task|rollout|update)."  # sections that are described once, as the run's own


@pytest.fixture(scope="module")
def interfaces() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)  # as when docs/interfaces.py is run
        yield importlib.import_module("interfaces")


@pytest.mark.parametrize("name", ["config.md", "cli.md", "api.md", "metrics.md"])
def test_the_page_is_up_to_date(interfaces: ModuleType, name: str) -> None:
    assert (DOCS / "reference" / name).read_text(encoding="utf-8") == interfaces.PAGES[name](), (
        "run make docs"
    )


def test_every_config_key_is_described_and_no_link_is_dead(interfaces: ModuleType) -> None:
    page: str = interfaces.config_page()
    rows = dict(re.findall(r"^\| `([^`]+)` \|.*\| ([^|]*) \|$", page, re.M))
    paths = {re.sub(r"\.(N|NAME)\b", "", key) for key in rows}
    keys = {key.replace(".*", "") for key in keys_of(Config) if not re.match(STAGE_KEYS, key)}
    assert paths == keys
    assert not [key for key, text in rows.items() if not text.strip()]
    headings = re.findall(r"^## (.*)$", page, re.M)
    anchors = {re.sub(r"[^a-z0-9_]", "", heading.lower()) for heading in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", page)) <= anchors


def test_every_command_and_option_is_described(interfaces: ModuleType) -> None:
    page: str = interfaces.cli_page()
    (commands,) = [a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)]
    for name, command in commands.choices.items():
        section = page.split(f"## vlrft {name}\n")[1].split("\n## ")[0]
        for action in command._actions:
            if action.help is not argparse.SUPPRESS and action.dest != "help":
                assert action.help, f"{name} {action.dest}"
                assert (action.option_strings or [""])[-1] in section


def test_every_public_name_is_described(interfaces: ModuleType) -> None:
    page: str = interfaces.api_page()
    for name in vlrft.__all__:
        section = page.split(f"## {name}\n")[1].split("\n## ")[0]
        assert section.startswith("\n```python\n")
        assert section.partition("\n```\n")[2].strip(), name


def test_text_is_shown_as_it_is_and_examples_as_code(interfaces: ModuleType) -> None:
    doc = "The `<answer>` tag, <b> and a*b.\n\n>>> 1 + 1\n2\n\n    run()\n"
    assert importlib.import_module("page_text").prose(doc) == (
        "The `<answer>` tag, \\<b> and a\\*b.\n\n```python\n>>> 1 + 1\n2\n```\n\n"
        "```python\nrun()\n```\n"
    )


def test_a_long_signature_has_an_argument_a_line(interfaces: ModuleType) -> None:
    arguments = "first: dict[str, int], *, second: tuple[int, int]=(1, 2), **rest: Any"
    assert importlib.import_module("api_page").split(arguments) == [
        "first: dict[str, int]",
        "*",
        "second: tuple[int, int]=(1, 2)",
        "**rest: Any",
    ]
