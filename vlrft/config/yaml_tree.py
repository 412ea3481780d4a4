"""YAML files as nested dicts that are not validated yet (`load` validates them)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

from vlrft.config.errors import show
from vlrft.config.renamed import in_run_folder, migrate_config
from vlrft.config.shipped import shipped_configs
from vlrft.config.yaml_text import MAX_CHARACTERS, parse_yaml
from vlrft.plugins.names import did_you_mean, nearest
from vlrft.schema.errors import ConfigError

Tree = dict[str, Any]
MAX_CHAIN = 10  # files that extend one another
OF_RUN = "config.yaml"  # in the folder of a run
REPLACED = ("rewards", "published")  # sections that are replaced as a whole, not merged


def read_tree(path: Path, extending: tuple[Path, ...] = ()) -> Tree:
    """The file's tree, merged over the tree of the file that it extends.

    `extending`: the files that extend this one. Old keys in the config of a run's own folder are renamed. Raises
    ConfigError for a file that cannot be read.
    """
    try:
        tree = _read(path)
    except ConfigError as e:
        if not extending:
            raise
        raise ConfigError(
            [f"{extending[-1]}: extends, a path relative to this file: {m}" for m in e.mistakes]
        ) from None
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


def leaves(value: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each value in sections and lists, with the keys and positions that lead to it; an empty section or list is a value."""
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping | list):
        inner = value.items() if isinstance(value, Mapping) else enumerate(value)
    if not isinstance(value, Mapping | list) or not value:
        yield keys, value
    for key, part in inner:
        yield from leaves(part, (*keys, str(key)))


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


def _read(path: Path) -> Tree:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_CHARACTERS + 1)
        tree = parse_yaml(text)
    except OSError as e:
        hint = _meant_config(path)
        raise ConfigError([f"{path}: cannot be read ({e.strerror}){hint}"]) from None
    except ValueError as e:  # not YAML, or not even UTF-8
        raise ConfigError([f"{path}: not valid YAML: {e}"]) from None
    if not isinstance(tree, dict):
        kind = "is empty" if tree is None else f"contains a {type(tree).__name__}"
        raise ConfigError([f"{path}: {kind}; expected keys such as task, policy and stages"])
    return tree


def _meant_config(path: Path) -> str:
    """The config that was probably meant by a file that cannot be read: a shipped one, or a file next to it."""
    shipped = shipped_configs()
    try:
        if (path / OF_RUN).is_file():
            return f"; give {path / OF_RUN}"
    except OSError:  # a name that is too long
        return ""
    if not path.suffix:
        near = did_you_mean(path.name, [name for name in shipped if name != path.name])
        return f"{near or ';'} give a YAML file, or a name that `vlrft list configs` prints"
    if path.stem in shipped:
        return f"; vlrft brings a config of that name: give {path.stem}"
    folder = path.parent
    try:
        files = [other for other in sorted(folder.iterdir()) if other.suffix == path.suffix]
        others = [other.name for other in files if other.is_file() and other.name != path.name]
    except OSError:
        others = []
    file = nearest(path.name, others)
    if file:
        return f"; did you mean {folder / file}?"
    return did_you_mean(path.stem, shipped)
