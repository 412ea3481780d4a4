"""The stages of a config's tree: their names, and the sections that they inherit from the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from vlrft.config import Config
from vlrft.config.errors import INHERITED
from vlrft.config.yaml_tree import Tree, merge


def complete_stages(tree: Tree) -> Tree:
    """A copy in which each stage has its inherited sections, an algorithm and a name."""
    tree = deepcopy(tree)
    if isinstance(tree.get("task"), str):
        tree["task"] = {"name": tree["task"]}
    stages = tree.get("stages")
    if not isinstance(stages, list):
        return tree
    for stage, name in zip(stages, stage_names(tree), strict=True):
        if not isinstance(stage, dict):
            continue
        for key in INHERITED:
            if key in tree or key in stage:
                stage[key] = merge(tree.get(key, {}), stage.get(key) or {})
        if stage.get("algorithm") is None:
            stage["algorithm"] = tree.get("algorithm", Config.algorithm)
        stage["name"] = name
    return tree


def stage_names(tree: Tree) -> list[Any]:
    """The name of each stage of a list of stages: its own, or its algorithm's, numbered where it is already taken."""
    names: list[Any] = []
    stages = tree.get("stages")
    for stage in stages if isinstance(stages, list) else []:
        if not isinstance(stage, dict):
            names.append(None)
            continue
        name = stage.get("name")
        if name is None:
            algorithm = stage.get("algorithm")
            if algorithm is None:
                algorithm = tree.get("algorithm", Config.algorithm)
            name = _number(_algorithm_label(algorithm), names)
        names.append(name)
    return names


def _algorithm_label(algorithm: Any) -> str:
    """The name of an algorithm's choice; of a reference, its attribute."""
    name = algorithm.get("name", "stage") if isinstance(algorithm, Mapping) else str(algorithm)
    return str(name).rpartition(":")[2]


def _number(name: str, taken: Sequence[Any]) -> str:
    """The name, or `name_2`, `name_3`, … where it is taken."""
    number = 2
    candidate = name
    while candidate in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate
