"""Each page of the documentation names commands, files, modules and pages that exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, blocks, commands, prose, read_page
from vlrft.cli.main import parse

RESULTS = sorted(f"benchmarks/results/{p.name}" for p in (ROOT / "benchmarks/results").glob("*.md"))
FOLDERS = ("vlrft", "rewards", "tasks", "configs", "benchmarks", "tests", "docs")


@pytest.mark.parametrize("path", PAGES)
def test_every_printed_command_is_one_that_the_program_takes(path: str) -> None:
    for command in commands(read_page(path)):
        assert parse(command[1:]).module


@pytest.mark.parametrize("path", PAGES)
def test_every_named_file_exists(path: str) -> None:
    names = re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*)`", prose(read_page(path)))
    assert [n for n in names if not (ROOT / n).exists()] == []


@pytest.mark.parametrize("path", [*PAGES, *RESULTS])
def test_every_benchmark_that_is_named_can_be_run(path: str) -> None:
    pattern = r"python -m (benchmarks\.[a-z_.]*[a-z])(?: ([a-z_]+))?"
    for name, program in set(re.findall(pattern, read_page(path))):
        spec = importlib.util.find_spec(name)
        assert spec is not None, name
        if spec.submodule_search_locations:
            main = importlib.util.find_spec(f"{name}.__main__")
            assert main is not None, name
            if "run_program(" in Path(str(main.origin)).read_text(encoding="utf-8"):
                assert program, f"{name}: which program?"
                assert importlib.util.find_spec(f"{name}.{program}") is not None, program


@pytest.mark.parametrize("path", PAGES)
def test_every_option_of_a_printed_benchmark_exists(path: str) -> None:
    for name, arguments in re.findall(
        r"python -m (benchmarks\.[a-z_.]*[a-z])([^`\n]*)", read_page(path)
    ):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            program = arguments.split()[:1]
            named = importlib.util.find_spec(f"{name}.{program[0]}") if program else None
            spec = named or importlib.util.find_spec(f"{name}.__main__")
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin).read_text(encoding="utf-8")
        for option in re.findall(r"--[a-z-]+", arguments):
            assert f'"{option}"' in source, f"{name}: {option}"


@pytest.mark.parametrize("path", PAGES)
def test_every_link_leads_to_a_file_and_a_heading(path: str) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose(read_page(path))):
        name, _, anchor = link.partition("#")
        target = (ROOT / path).parent / name if name else ROOT / path
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.M)
            assert anchor in {slug(heading) for heading in headings}, link


def slug(heading: str) -> str:
    words = re.sub(r"[^\w\s-]", "", heading.lower())
    return re.sub(r"[\s-]+", "-", words).strip("-")


@pytest.mark.parametrize("path", [p for p in PAGES if p.startswith("docs/")])
def test_every_page_is_in_the_site_s_navigation(path: str) -> None:
    assert f": {path.removeprefix('docs/')}" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [p for p in PAGES if "/howto/" in p])
def test_every_file_of_a_how_to_is_run_by_its_own_test(path: str) -> None:
    shown = [b for language in ("python", "yaml") for b in blocks(read_page(path), language)]
    named = [re.match(r"# (\w+\.\w+)", block) for block in shown]
    assert all(named), "a block without a file's name in its first line is run by no test"
    if shown:
        test = ROOT / "tests" / "docs" / "howto" / f"test_{Path(path).stem}.py"
        text = test.read_text(encoding="utf-8")
        stems = [m[1].partition(".")[0] for m in named if m]
        assert [s for s in stems if f'"{s}' not in text and f"/{s}." not in text] == []
