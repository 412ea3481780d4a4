"""Who may import whom, read file by file from the imports themselves; imports for type checkers count as all others."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from vlrft.algorithms import ALGORITHMS

ROOT = Path(__file__).parent.parent
# From the top down: a folder imports only folders of the layers below its own.
LAYERS = (
    {"cli", "integrations", "testing"},
    {"api"},
    {"trainer"},
    {"reporting"},
    {"evaluation"},
    {"rollout"},
    {"algorithms", "engine", "scoring"},
    {"selection", "policy", "grading", "data"},
    {"objectives", "advantages", "distributed", "envs", "vision"},
    {"config", "workers"},
    {"plugins"},
    {"tracing", "memory", "schema"},
)
HEIGHT = {folder: -k for k, layer in enumerate(LAYERS) for folder in layer}
WITHOUT_TORCH = (
    "vlrft.__main__",
    "vlrft.advantages",
    "vlrft.api",
    "vlrft.cli.arguments",
    "vlrft.cli.commands",
    "vlrft.cli.main",
    "vlrft.config",
    "vlrft.data",
    "vlrft.distributed.interrupts",
    "vlrft.envs",
    "vlrft.evaluation.bootstrap",
    "vlrft.evaluation.compare",
    "vlrft.evaluation.evaluate",
    "vlrft.evaluation.intervals",
    "vlrft.evaluation.result_files",
    "vlrft.grading",
    "vlrft.memory",
    "vlrft.plugins",
    "vlrft.reporting.html",
    "vlrft.reporting.run_folder",
    "vlrft.reporting.run_result",
    "vlrft.rollout.gold",
    "vlrft.rollout.task",
    "vlrft.schema",
    "vlrft.scoring",
    "vlrft.tracing.phases",
    "vlrft.trainer.callbacks",
    "vlrft.vision.boxes",
    "vlrft.workers",
)
HEAVY = {"torch", "transformers", "peft", "datasets", "deepspeed", "trl"}
PLUGINS_MAY = {
    "rewards": ("vlrft.schema", "vlrft.grading", "vlrft.vision"),
    "tasks": ("vlrft.schema", "vlrft.grading", "vlrft.vision", "vlrft.data", "vlrft.envs"),
}
MAX_ENTRIES = 28  # of vlrft/
MAX_LINES = 400


@cache
def library() -> Mapping[str, Path]:
    """Module -> file; a package is its `__init__.py`."""
    modules = {}
    for path in sorted((ROOT / "vlrft").rglob("*.py")):
        if path.parent.name != "templates":
            modules[".".join(path.relative_to(ROOT).with_suffix("").parts)] = path
    return {name.removesuffix(".__init__"): path for name, path in modules.items()}


def imported(path: Path, *, late: bool) -> set[str]:
    """Names that a file imports, as `module` and `module.name`; `late`: also those inside functions and those for type
    checkers, which are no imports when the file is."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden: set[int] = set()
    if not late:
        later = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) or _is_for_types(n)]
        hidden = {id(child) for node in later for child in ast.walk(node)}
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            module = node.module or ""
            names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return names


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


@cache
def edges() -> Mapping[str, frozenset[str]]:
    """Module -> modules of the library that it imports anywhere. `from a import b` is an import of module a.b where
    there is one, and otherwise of a."""
    arrows = {}
    for module, path in library().items():
        names = imported(path, late=True)
        targets = {n for n in names if n in library()}
        packages = {t for t in targets if any(n.startswith(f"{t}.") for n in targets)}
        arrows[module] = frozenset(targets - _only_paths(path, packages) - {module})
    return arrows


def _only_paths(path: Path, packages: set[str]) -> set[str]:
    """Of these packages, those from which a file takes nothing but modules."""
    used = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module in packages:
            if any(f"{node.module}.{alias.name}" not in library() for alias in node.names):
                used.add(node.module)
        elif isinstance(node, ast.Import):
            used |= {alias.name for alias in node.names} & packages
    return packages - used


def folder(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def circles(arrows: Mapping[str, frozenset[str]]) -> list[set[str]]:
    """Groups of nodes that reach each other: what is left when leaves are taken away from both ends."""
    left = {node: set(targets) for node, targets in arrows.items()}
    while True:
        sources = {target for targets in left.values() for target in targets}
        ends = {n for n, targets in left.items() if not targets & left.keys() or n not in sources}
        if not ends:
            return [set(left)] if left else []
        left = {n: targets - ends for n, targets in left.items() if n not in ends}


def test_every_folder_has_a_layer() -> None:
    folders = {folder(module) for module in library()} - {"", "__main__"}
    assert folders == set(HEIGHT)


def test_the_top_of_the_package_stays_a_hall() -> None:
    entries = [p for p in (ROOT / "vlrft").iterdir() if p.name != "__pycache__"]
    assert len(entries) <= MAX_ENTRIES, sorted(p.name for p in entries)


@pytest.mark.parametrize("module", sorted(library()))
def test_imports_run_downwards(module: str) -> None:
    above = folder(module)
    if above in HEIGHT:
        for other in edges()[module]:
            below = folder(other)
            if below and below != above:
                assert HEIGHT[below] < HEIGHT[above], f"{module} imports {other}"


def test_no_file_imports_itself_through_others() -> None:
    assert not circles(edges())


def test_a_circle_is_seen() -> None:
    knot = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set[str]()}
    assert circles({k: frozenset(v) for k, v in knot.items()}) == [{"b", "c"}]


def test_folders_do_not_import_each_other_in_a_circle() -> None:
    arrows: dict[str, set[str]] = defaultdict(set)
    for module, others in edges().items():
        arrows[folder(module)] |= {folder(other) for other in others} - {folder(module), ""}
    assert not circles({k: frozenset(v) for k, v in arrows.items() if k})


@pytest.mark.parametrize("module", sorted(library()))
def test_the_library_imports_no_pack(module: str) -> None:
    for name in imported(library()[module], late=True):
        assert name.split(".")[0] not in ("rewards", "tasks")
        assert not name.startswith(("vlrft.rewards", "vlrft.tasks"))


def test_nothing_imports_the_conformance_suites_but_tests() -> None:
    for module, others in edges().items():
        if folder(module) != "testing":
            assert "testing" not in {folder(other) for other in others}, module


def light() -> list[str]:
    return [m for m in sorted(library()) if any(f"{m}.".startswith(f"{n}.") for n in WITHOUT_TORCH)]


def test_every_light_part_exists() -> None:
    for name in WITHOUT_TORCH:
        assert any(m == name or m.startswith(f"{name}.") for m in library()), name


@pytest.mark.parametrize("module", light())
def test_the_light_parts_import_no_torch(module: str) -> None:
    """At the top of the file, and neither does anything that they import there."""
    seen, waiting = set[str](), [module]
    while waiting:
        current = waiting.pop()
        seen.add(current)
        names = imported(library()[current], late=False)
        heavy = {n.split(".")[0] for n in names} & HEAVY
        assert not heavy, f"{module} -> {current} imports {heavy}"
        waiting += [n for n in names if n in library() and n not in seen]


@pytest.mark.parametrize("kind", sorted(PLUGINS_MAY))
def test_packs_and_rewards_use_only_the_public_parts(kind: str) -> None:
    for path in (ROOT / kind).rglob("*.py"):
        names = imported(path, late=True)
        assert not {n for n in names if n.split(".")[0] in ("rewards", "tasks")}, path
        for name in names & set(library()):
            assert name.startswith(PLUGINS_MAY[kind]), f"{path} imports {name}"


@pytest.mark.parametrize("module", sorted(library()))
def test_no_algorithm_is_named_in_a_condition_outside_its_own_place(module: str) -> None:
    """An algorithm's name in an `if` of the library would be a seam that is wrong."""
    if module.startswith("vlrft.algorithms.methods"):
        return
    for node in ast.walk(ast.parse(library()[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.If | ast.IfExp | ast.Compare):
            tested = node.test if isinstance(node, ast.If | ast.IfExp) else node
            names = {n.value for n in ast.walk(tested) if isinstance(n, ast.Constant)}
            assert not names & set(ALGORITHMS)


def test_no_module_is_named_like_a_standard_one_at_the_top() -> None:
    names = {p.stem for p in [*(ROOT / "vlrft").glob("*.py"), *(ROOT / "vlrft").glob("*/")]}
    assert not names & set(sys.stdlib_module_names)


@pytest.mark.parametrize("place", ["tests", "benchmarks"])
def test_tests_and_benchmarks_do_not_import_each_other(place: str) -> None:
    other = {"tests": "benchmarks", "benchmarks": "tests"}[place]
    for path in (ROOT / place).rglob("*.py"):
        names = imported(path, late=True)
        assert not {n for n in names if n.split(".")[0] == other}, path


@pytest.mark.parametrize("place", ["vlrft", "rewards", "tasks", "benchmarks"])
def test_files_stay_readable(place: str) -> None:
    for path in (ROOT / place).rglob("*.py"):
        assert path.read_text(encoding="utf-8").count("\n") < MAX_LINES, path
