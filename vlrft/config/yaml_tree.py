"""YAML files and `key=value` overrides as nested dicts that are not validated yet (`load` validates them)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

from vlrft.config.errors import MAX_SHOWN, show
from vlrft.config.renamed import in_run_folder, migrate_config
from vlrft.config.shipped import shipped_configs
from vlrft.config.yaml_text import MAX_CHARACTERS, parse_yaml
from vlrft.plugins.names import did_you_mean
from vlrft.schema.errors import ConfigError

Tree = dict[str, Any]
MAX_CHAIN = 10  # files that extend one another
MAX_PATH = 20  # keys in the path of an override
REPLACED = ("rewards", "published")  # sections that are replaced as a whole, not merged


def read_tree(path: Path, extending: tuple[Path, ...] = ()) -> Tree:
    """The file's tree, merged over the tree of the file that it extends.

    `extending`: the files that extend this one. Old keys in the config of a run's own folder are renamed. Raises
    ConfigError for a file that cannot be read.
    """
    tree = _read(path)
    if in_run_folder(path):
        migrate_config(tree)
    base = tree.pop("extends", None)
    if base is None:
        return tree
    if not isinstance(base, str):
        raise ConfigError([f"{path}: extends: expected the name of a file, got {base!r}"])
    chain = (*extending, path.resolve())
    other = path.parent / base
    try:
        turns_back = other.resolve() in chain
    except (OSError, ValueError) as e:  # a name that is too long
        raise ConfigError([f"{path}: extends: {show(base)} cannot be a file ({e})"]) from None
    if turns_back:
        raise ConfigError([f"{path}: extends: {base} extends this file in turn"])
    if len(chain) > MAX_CHAIN:
        raise ConfigError([f"{path}: extends: more than {MAX_CHAIN} files extend one another"])
    return cast(Tree, merge(read_tree(other, chain), tree))


def apply_override(tree: Tree, item: str) -> None:
    """Applies an override `a.b.0.c=value`. Setting policy.model removes policy.build, and the reverse.

    Raises ConfigError for an item that is no override, or a path that does not exist.
    """
    path, equals, text = item.partition("=")
    if not equals or not all(path.split(".")):
        raise ConfigError([f"{_shorten(item)}: expected key.path=value"])
    *parents, last = path.split(".")
    if len(parents) >= MAX_PATH:
        raise ConfigError([f"{_shorten(item)}: a path of more than {MAX_PATH} keys"])
    try:
        value = parse_yaml(text)
    except ValueError as e:
        raise ConfigError([f"{_shorten(item)}: the value is not valid YAML: {e}"]) from None
    node: Any = tree
    for k, part in enumerate(parents):
        node = _child(node, part, ".".join(parents[: k + 1]))
    if isinstance(node, list):
        node[_index(node, last, path)] = value
    elif isinstance(node, dict):
        node[last] = value
    else:
        raise ConfigError([f"{item}: {'.'.join(parents)} is not a section"])
    for one, other in (("model", "build"), ("build", "model")):
        if path.split(".")[:2] == ["policy", one] and value is not None:
            tree["policy"].pop(other, None)


def merge(base: Any, changes: Any) -> Any:
    """The base with the changes applied key by key; a value that is not a section is replaced as a whole."""
    if not (isinstance(base, Mapping) and isinstance(changes, Mapping)):
        return deepcopy(changes)
    keys = [*base, *(k for k in changes if k not in base)]
    out: Tree = {}
    for k in keys:
        if k not in changes:
            out[k] = deepcopy(base[k])
        else:
            out[k] = merge(None if k in REPLACED else base.get(k), changes[k])
    return out


def _shorten(item: str) -> str:
    return item if len(item) <= MAX_SHOWN else f"{item[:MAX_SHOWN]}…"


def _read(path: Path) -> Tree:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_CHARACTERS + 1)
        tree = parse_yaml(text)
    except OSError as e:
        hint = ""
        if not path.suffix:
            near = did_you_mean(path.name, shipped_configs())
            hint = f"{near or ';'} give a YAML file, or a name that `vlrft list configs` prints"
        raise ConfigError([f"{path}: cannot be read ({e.strerror}){hint}"]) from None
    except ValueError as e:  # not YAML, or not even UTF-8
        raise ConfigError([f"{path}: not valid YAML: {e}"]) from None
    if not isinstance(tree, dict):
        kind = "is empty" if tree is None else f"contains a {type(tree).__name__}"
        raise ConfigError([f"{path}: {kind}; expected keys such as task, policy and stages"])
    return tree


def _child(node: Any, part: str, path: str) -> Any:
    if isinstance(node, list):
        return node[_index(node, part, path)]
    if not isinstance(node, dict):
        raise ConfigError([f"{path}: is not a section, so no key of it can be set"])
    if node.get(part) is None:
        node[part] = {}
    if isinstance(node[part], str):  # such as `task: digits`, which is short for {name: digits}
        node[part] = {"name": node[part]}
    return node[part]


def _index(node: list[Any], part: str, path: str) -> int:
    if not node:
        raise ConfigError([f"{path}: the list is empty"])
    if not part.isdecimal() or int(part) >= len(node):
        raise ConfigError([f"{path}: expected a number from 0 to {len(node) - 1}"])
    return int(part)
