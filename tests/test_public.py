"""The public names of `import vlrft`: all there, imported only when used, and free of torch where they can be."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import vlrft

HEAVY = {"torch", "transformers", "datasets", "deepspeed", "peft"}
WITH_TORCH = {
    "Algorithm",
    "LossBatch",
    "Needs",
    "Objective",
    "PolicyLoss",
    "Terms",
    "find_algorithm",
    "policy_loss",
}


def loaded_by(code: str) -> set[str]:
    """The heavy packages that are loaded after the code has run in a fresh interpreter."""
    report = "import json, sys; print(json.dumps([m for m in sys.modules if '.' not in m]))"
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], check=True, capture_output=True, text=True
    )
    return HEAVY & set(json.loads(out.stdout))


@pytest.mark.parametrize("name", vlrft.__all__)
def test_every_public_name_can_be_imported_and_says_what_it_is(name: str) -> None:
    thing = getattr(vlrft, name)
    assert name in dir(vlrft)
    if callable(thing):
        assert thing.__doc__, name


def test_an_unknown_name_is_an_attribute_error_and_modules_are_still_found() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        _ = vlrft.trian
    with pytest.raises(ImportError, match="cannot import name 'trian'"):
        exec("from vlrft import trian")
    exec("from vlrft import schema, tasks, rewards")


def test_importing_vlrft_loads_nothing_heavy() -> None:
    assert not loaded_by("import vlrft")
    assert not loaded_by("import vlrft; dir(vlrft); vlrft.__version__")


def test_the_light_names_load_no_torch() -> None:
    light = sorted(set(vlrft.__all__) - WITH_TORCH)
    assert not loaded_by(f"from vlrft import {', '.join(light)}")
    assert "torch" in loaded_by("from vlrft import policy_loss")


def test_the_type_checkers_imports_are_the_public_names() -> None:
    tree = ast.parse(Path(vlrft.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and _is_type_checking(node)]
    imports = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(imports) == sorted(vlrft.__all__)
    assert imports == vlrft._MODULE_OF


def _is_type_checking(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
