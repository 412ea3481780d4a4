"""Who may import whom, read file by file from the imports themselves; imports for type checkers count as all others."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from vlrft.algorithms import ALGORITHMS

ROOT = Path(__file__).parent.parent
# From the top down: a folder imports only folders of the layers below its own.
LAYERS = (
    {"cli", "integrations", "testing"},
    {"trainer"},
    {"reporting"},
    {"evaluation"},
    {"rollout"},
    {"algorithms", "engine", "scoring"},
    {"selection", "policy", "grading", "data"},
    {"objectives", "advantages", "distributed", "envs", "vision"},
    {"config", "workers"},
    {"plugins"},
    {"memory", "schema"},
)
HEIGHT = {folder: -k for k, layer in enumerate(LAYERS) for folder in layer}
WITHOUT_TORCH = (
    "vlrft.__main__",
    "vlrft.advantages",
    "vlrft.cli.arguments",
    "vlrft.cli.commands",
    "vlrft.cli.main",
    "vlrft.config",
    "vlrft.data",
    "vlrft.distributed.interrupts",
    "vlrft.distributed.phases",
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
    "vlrft.trainer.api",
    "vlrft.trainer.callbacks",
    "vlrft.vision.boxes",
    "vlrft.workers",
)
HEAVY = {"torch", "transformers", "peft", "datasets", "deepspeed", "trl"}
PLUGINS_MAY = {
    "rewards": ("vlrft.schema", "vlrft.grading", "vlrft.vision"),
    "tasks": (
        "vlrft.schema",
        "vlrft.grading",
        "vlrft.vision",
        "vlrft.data",
        "vlrft.envs",
        "vlrft.tasks",  # a pack may be made of the parts of another
    ),
}
MAX_ENTRIES = 26  # of vlrft/
MAX_LINES = 400


@cache
def library() -> Mapping[str, Path]:
    """Module -> file; a package is its `__init__.py`."""
    modules = {}
    for path in sorted((ROOT / "vlrft").rglob("*.py")):
        if path.parent.name != "templates":
            modules[".".join(path.relative_to(ROOT).with_suffix("").parts)] = path
    return {name.removesuffix(".__init__"): path for name, path in modules.items()}


@dataclass(frozen=True, kw_only=True)
class File:
    """The imports and comparisons of a file, read once: syntax trees are large, and reading them takes most of the time.

    Imports are names as `module` and `module.name`. `late` are also those inside functions and those for type checkers, which
    are no imports when the file is. `taken` are the packages that it names itself, and those from which it takes a name that is
    no module of the library. `conditions` are line numbers and the texts that a condition there contains.
    """

    early: frozenset[str]
    late: frozenset[str]
    taken: frozenset[str]
    conditions: tuple[tuple[int, frozenset[str]], ...]


@cache
def read(path: Path) -> File:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    later = [n for n in nodes if isinstance(n, ast.FunctionDef) or _is_for_types(n)]
    hidden = {id(child) for node in later for child in ast.walk(node)}
    early, late, taken = set[str](), set[str](), set[str]()
    conditions: list[tuple[int, frozenset[str]]] = []
    for node in nodes:
        names = set[str]()
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
            taken |= names
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            module = node.module or ""
            parts = {f"{module}.{alias.name}" for alias in node.names}
            names = {module} | parts
            taken |= {module} if parts - library().keys() else set()
        elif isinstance(node, ast.If | ast.IfExp | ast.Compare):
            tested = node if isinstance(node, ast.Compare) else node.test
            constants = [n.value for n in ast.walk(tested) if isinstance(n, ast.Constant)]
            texts = frozenset(value for value in constants if isinstance(value, str))
            conditions.append((node.lineno, texts))
        late |= names
        early |= names if id(node) not in hidden else set()
    return File(
        early=frozenset(early),
        late=frozenset(late),
        taken=frozenset(taken),
        conditions=tuple(conditions),
    )


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


@cache
def edges() -> Mapping[str, frozenset[str]]:
    """Module -> modules of the library that it imports anywhere. `from a import b` is an import of module a.b where
    there is one, and otherwise of a."""
    arrows = {}
    for module, path in library().items():
        file = read(path)
        targets = file.late & library().keys()
        packages = {t for t in targets if any(n.startswith(f"{t}.") for n in targets)}
        only_paths = packages - file.taken  # of these it takes nothing but modules
        arrows[module] = frozenset(targets - only_paths - {module})
    return arrows


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


def test_imports_run_downwards() -> None:
    upwards = [
        f"{module} imports {other}"
        for module, others in edges().items()
        for other in others
        if folder(module) in HEIGHT and folder(other) not in ("", folder(module))
        if HEIGHT[folder(other)] >= HEIGHT[folder(module)]
    ]
    assert upwards == []


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


def test_the_library_imports_no_pack() -> None:
    packs = [
        f"{module} imports {name}"
        for module, path in library().items()
        for name in read(path).late
        if name.split(".")[0] in ("rewards", "tasks")
        or name.startswith(("vlrft.rewards", "vlrft.tasks"))
    ]
    assert packs == []


def test_nothing_imports_the_conformance_suites_but_tests() -> None:
    for module, others in edges().items():
        if folder(module) != "testing":
            assert "testing" not in {folder(other) for other in others}, module


def light() -> list[str]:
    return [m for m in sorted(library()) if any(f"{m}.".startswith(f"{n}.") for n in WITHOUT_TORCH)]


def test_every_light_part_exists() -> None:
    for name in WITHOUT_TORCH:
        assert any(m == name or m.startswith(f"{name}.") for m in library()), name


def test_the_light_parts_import_no_torch() -> None:
    """At the top of the file, and neither does anything that they import there."""
    origin = {module: module for module in light()}  # module -> the light part that reaches it
    waiting = list(origin)
    mistakes = []
    while waiting:
        current = waiting.pop()
        names = read(library()[current]).early
        heavy = {n.split(".")[0] for n in names} & HEAVY
        mistakes += [f"{origin[current]} -> {current} imports {name}" for name in heavy]
        reached = [n for n in names if n in library() and n not in origin]
        origin |= dict.fromkeys(reached, origin[current])
        waiting += reached
    assert mistakes == []


@pytest.mark.parametrize("kind", sorted(PLUGINS_MAY))
def test_packs_and_rewards_use_only_the_public_parts(kind: str) -> None:
    for path in (ROOT / kind).rglob("*.py"):
        names = read(path).late
        assert not {n for n in names if n.split(".")[0] in ("rewards", "tasks")}, path
        for name in names & set(library()):
            assert name.startswith(PLUGINS_MAY[kind]), f"{path} imports {name}"


def test_no_algorithm_is_named_in_a_condition_outside_its_own_place() -> None:
    """An algorithm's name in an `if` of the library would be a seam that is wrong."""
    places = {m: p for m, p in library().items() if not m.startswith("vlrft.algorithms.methods")}
    named = [
        f"{module}:{line} {name}"
        for module, path in places.items()
        for line, texts in read(path).conditions
        for name in texts & set(ALGORITHMS)
    ]
    assert named == []


def test_no_module_is_named_like_a_standard_one_at_the_top() -> None:
    names = {p.stem for p in [*(ROOT / "vlrft").glob("*.py"), *(ROOT / "vlrft").glob("*/")]}
    assert not names & set(sys.stdlib_module_names)


@pytest.mark.parametrize("place", ["tests", "benchmarks"])
def test_tests_and_benchmarks_do_not_import_each_other(place: str) -> None:
    other = {"tests": "benchmarks", "benchmarks": "tests"}[place]
    for path in (ROOT / place).rglob("*.py"):
        if other in path.read_text(encoding="utf-8"):
            assert not {n for n in read(path).late if n.split(".")[0] == other}, path


@pytest.mark.parametrize("place", ["vlrft", "rewards", "tasks", "benchmarks"])
def test_files_stay_readable(place: str) -> None:
    for path in (ROOT / place).rglob("*.py"):
        assert path.read_text(encoding="utf-8").count("\n") < MAX_LINES, path
