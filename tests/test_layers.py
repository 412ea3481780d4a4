"""Who may import whom, read from the imports themselves. A module may import what stands below it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# From the bottom up; modules of one layer may import each other where that makes no circle.
LAYERS = (
    {"arguments", "phases", "schema", "shipped"},
    {"bounded", "images", "planning", "references"},
    {"processes", "workers", "serving", "signatures"},
    {"boxes", "config", "masks"},
    {"data", "grading", "metrics", "plugins", "intervals", "mistakes", "ranks"}
    | {"trees", "watchdog"},
    {"chat", "calls", "episode", "probes", "scoring", "advantages", "golds", "grades"}
    | {"hosting", "loading"},
    {"policy"},
    {"rollout", "objectives", "segment"},
    {"engine", "env", "binding", "selection"},
    {"algorithms", "evaluate", "flaws", "probing", "sft"},
    {"lesson", "batch", "checkpoint", "dealing", "figures", "log"},
    {
        "adapters",
        "control",
        "player",
        "comparison",
        "metrics",
        "profiler",
        "report",
        "results",
        "update",
    }
    | {"launcher", "lockstep"},
    {"run", "snapshot"},
    {"assemble", "sizing", "start"},
    {"train"},
    {"commands", "templates"},
    {"cli"},
    {"__main__"},
)
WITHOUT_TORCH = {
    "schema",
    "references",
    "processes",
    "workers",
    "serving",
    "signatures",
    "calls",
    "probes",
    "probing",
    "flaws",
    "templates",
    "config",
    "plugins",
    "grading",
    "boxes",
    "scoring",
    "advantages",
    "loading",
    "trees",
    "mistakes",
    "phases",
    "planning",
    "hosting",
    "golds",
} | {
    "binding",
    "comparison",
    "intervals",
    "cli",
    "evaluate",
    "report",
    "data",
    "grades",
    "metrics",
    "results",
}
RANK = {name: k for k, layer in enumerate(LAYERS) for name in layer}
PLUGINS_MAY = {
    "rewards": {"schema", "grading", "boxes"},
    "tasks": {"schema", "grading", "boxes", "env", "data", "masks", "metrics", "segment"},
}


def imports(path: Path, *, late: bool) -> set[str]:
    """Modules that a file imports; `late`: also inside functions. Imports for type checkers only do not count."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden: set[int] = set()
    for node in ast.walk(tree):
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if typing_only or (not late and isinstance(node, ast.FunctionDef)):
            hidden |= {id(child) for child in ast.walk(node)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module or "")
    return found


def part(module: str) -> str | None:
    """`vlrft.policy.load` -> `policy`; None for a module that is not ours."""
    names = module.split(".")
    return names[1] if names[0] == "vlrft" and len(names) > 1 else None


def library() -> list[Path]:
    return sorted(p for p in (ROOT / "vlrft").rglob("*.py") if p != ROOT / "vlrft" / "__init__.py")


def owner(path: Path) -> str:
    return path.relative_to(ROOT / "vlrft").with_suffix("").parts[0]


def test_every_part_has_a_layer() -> None:
    assert {owner(p) for p in library()} == set(RANK)


@pytest.mark.parametrize("path", library(), ids=lambda p: str(p.relative_to(ROOT)))
def test_the_core_imports_downwards_and_no_pack(path: Path) -> None:
    own = owner(path)
    for module in imports(path, late=True):
        assert module.split(".")[0] not in ("rewards", "tasks")
        other = part(module)
        if other is not None:
            assert RANK[other] <= RANK[own], f"{own} imports {module}, which stands above it"


def test_parts_do_not_import_each_other_in_a_circle() -> None:
    edges = {name: set[str]() for name in RANK}
    for path in library():
        edges[owner(path)] |= {p for m in imports(path, late=False) if (p := part(m))} - {
            owner(path)
        }
    done: set[str] = set()
    while done != set(edges):
        free = {name for name, below in edges.items() if name not in done and below <= done}
        assert free, f"a circle among {sorted(set(edges) - done)}"
        done |= free


@pytest.mark.parametrize("path", library(), ids=lambda p: str(p.relative_to(ROOT)))
def test_the_light_parts_import_no_torch(path: Path) -> None:
    if owner(path) in WITHOUT_TORCH:
        heavy = {m.split(".")[0] for m in imports(path, late=False)}
        assert not heavy & {"torch", "transformers", "peft", "datasets"}


@pytest.mark.parametrize("kind", sorted(PLUGINS_MAY))
def test_packs_and_rewards_use_only_the_public_parts(kind: str) -> None:
    for path in (ROOT / kind).rglob("*.py"):
        used = {
            m for m in imports(path, late=True) if m.split(".")[0] in ("vlrft", "rewards", "tasks")
        }
        assert {part(m) for m in used} <= PLUGINS_MAY[kind], path


def test_no_method_is_named_outside_its_own_place() -> None:
    """A method's name in an `if` of the core would be a seam that is wrong."""
    allowed = ROOT / "vlrft" / "algorithms" / "methods"
    from vlrft.algorithms import ALGORITHMS

    for path in library():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.If | ast.IfExp | ast.Compare) and path.parent != allowed:
                names = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
                tested = node.test if isinstance(node, ast.If | ast.IfExp) else node
                inside = {n.value for n in ast.walk(tested) if isinstance(n, ast.Constant)}
                assert not inside & set(ALGORITHMS), f"{path}: {names & set(ALGORITHMS)}"


def test_no_module_is_named_like_a_standard_one_at_the_top() -> None:
    names = {p.stem for p in [*(ROOT / "vlrft").glob("*.py"), *(ROOT / "vlrft").glob("*/")]}
    assert not names & set(sys.stdlib_module_names)


def test_files_stay_readable() -> None:
    for folder in ("vlrft", "rewards", "tasks"):
        for path in (ROOT / folder).rglob("*.py"):
            assert path.read_text(encoding="utf-8").count("\n") < 400, path
