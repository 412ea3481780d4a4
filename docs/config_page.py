"""The reference page of the config, from its dataclasses and the docstrings below their fields."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from page_text import GENERATED, cell, escape

from vlrft.config import Config
from vlrft.config.errors import INHERITED
from vlrft.config.field_docs import field_docs

HEAD = f"""# Configuration

{GENERATED}

A config is a YAML file that says only what differs from the defaults below. `extends: other.yaml` takes over another file,
a path relative to this one. On the command line `key.path=value` overrides a key, such as `rollout.group_size=16` or
`stages.1.steps=50`. Each stage starts from the run's `task`, `rollout` and `update` and may change any of their keys.
An unknown key is an error. `vlrft show CONFIG` prints a config with all its keys.
"""


def config_page() -> str:
    lines = [HEAD]
    for path, kind in sections(Config):
        lines += [f"## {title(path)}\n", f"{inspect.getdoc(kind)}\n"]
        lines += ["| key | type | default | |", "| --- | --- | --- | --- |"]
        docs, hints = field_docs(kind), get_type_hints(kind, include_extras=True)
        for field in dataclasses.fields(kind):
            cells = [
                f"`{path + '.' if path else ''}{field.name}`",
                type_words(hints[field.name], f"{path}.{field.name}".lstrip(".")),
                "the run's"
                if path == "stages.N" and field.name in INHERITED
                else default_words(field),
                escape(docs.get(field.name, "")),
            ]
            lines.append("| " + " | ".join(map(cell, cells)) + " |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def sections(root: type[Any]) -> list[tuple[str, type[Any]]]:
    """Every section of the config with its path, each class once, where it appears first."""
    places: dict[type[Any], str] = {}
    waiting = [("", root)]
    while waiting:
        path, kind = waiting.pop(0)
        if kind in places:
            continue
        places[kind] = path
        hints = get_type_hints(kind)
        for field in dataclasses.fields(kind):
            for part, below in dataclasses_in(hints[field.name]):
                waiting.append((f"{path}.{field.name}{below}".lstrip("."), part))
    return [(path, kind) for kind, path in places.items()]


def dataclasses_in(hint: Any) -> Iterator[tuple[type[Any], str]]:
    """The config sections that a type holds, with what follows the key: `.N` in a list, `.NAME` in a mapping."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        yield hint, ""
    elif get_origin(hint) in (Union, UnionType, tuple, list, dict, Annotated):
        below = {tuple: ".N", list: ".N", dict: ".NAME"}.get(get_origin(hint), "")
        for arg in get_args(hint):
            for part, rest in dataclasses_in(arg):
                yield part, below + rest


def title(path: str) -> str:
    return f"`{path}`" if path else "The run"


def type_words(hint: Any, path: str) -> str:
    """The type in words of YAML: `integer > 0`, `"sdpa" or "eager"`, a link to a section."""
    args = get_args(hint)
    match get_origin(hint):
        case origin if origin is Annotated:
            parts = [words for item in flat_metadata(args[1:]) for words in bound_words(item)]
            return " ".join([type_words(args[0], path), ", ".join(parts)]).rstrip()
        case origin if origin is Literal:
            return " or ".join(f"`{value}`" for value in args)
        case origin if origin in (Union, UnionType):
            return " or ".join(type_words(arg, path) for arg in args)
        case origin if origin is dict and args[1] is Any:
            return "section"
        case origin if origin is dict:
            return f"section: name → {type_words(args[1], f'{path}.NAME')}"
        case origin if origin in (tuple, list):
            if Ellipsis in args or origin is list:
                return f"list of {type_words(args[0], f'{path}.N')}"
            return f"list of {len(args)}: {type_words(args[0], path)}"
    if dataclasses.is_dataclass(hint):
        place = {kind: at for at, kind in sections(Config)}[hint]
        return f"[section](#{re.sub(r'[^a-z0-9_]', '', place.lower())})"
    words = {int: "integer", float: "number", str: "text", bool: "true or false", Any: "any value"}
    return {**words, type(None): "null"}.get(hint, getattr(hint, "__name__", str(hint)))


def flat_metadata(metadata: tuple[Any, ...]) -> Iterator[Any]:
    for item in metadata:
        yield from getattr(item, "metadata", [item])


def bound_words(bound: Any) -> Iterator[str]:
    for attribute, sign in (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤")):
        limit = getattr(bound, attribute, None)
        if limit is not None:
            yield f"{sign} {limit}"


def default_words(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"`{json.dumps(field.default_factory())}`"
    default = field.default
    if default is dataclasses.MISSING:
        return "required"
    return "see there" if dataclasses.is_dataclass(default) else f"`{json.dumps(default)}`"
