"""The configs that benchmarks/learning trains with load, from wherever they lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlrft.config.load import load_config
from vlrft.config.yaml_tree import read_tree

FOLDER = Path(__file__).parents[1] / "benchmarks/learning"
CONFIGS = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.yaml"))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_of_the_benchmarks_loads(name: str) -> None:
    policy = read_tree(FOLDER / name).get("policy") or {}
    continued = not (policy.get("model") or policy.get("build"))  # from the run before it
    config = load_config(FOLDER / name, ["policy.model=some/model"] if continued else [])
    assert config.stages
