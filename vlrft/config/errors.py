"""What pydantic found wrong with a configuration, as lines for the person who wrote it: key, mistake, what is near."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from vlrft.plugins.references import near
from vlrft.schema.errors import ConfigError

INHERITED = ("task", "rollout", "update")  # what a stage takes over from the run
SCALAR = (str, int, float, list, tuple, type(None))
EXPECTED = {  # in the words of a YAML file, not of Python
    "dataclass_type": "expected a section of keys",
    "tuple_type": "expected a list",
    "dict_type": "expected a section of keys",
}


def explain(error: ValidationError, root: Any, at: str = "") -> list[str]:
    """One line a mistake: the key below `at`, what is wrong, and what is near or allowed."""
    known = list(_keys(root))
    found = [(_path(m), m) for m in error.errors()]
    inherited = {path for path, _ in found if path.split(".")[0] in INHERITED}
    lines: list[str] = []
    for key, mistake in found:
        if mistake["type"] == "too_short" and mistake["input"]:
            continue  # its items are at fault, and each has a line of its own
        below = re.sub(r"^stages\.\d+\.", "", key)
        if below != key and any(f"{below}.".startswith(f"{path}.") for path in inherited):
            continue  # the run's own mistake, seen again in a stage
        full = ".".join(filter(None, [at, key]))
        if mistake["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            lines.append(f"{full}: unknown key{_hint(key, known, at)}")
        elif mistake["type"] in ("missing", "missing_argument"):
            lines.append(f"{full}: missing")
        else:
            text = EXPECTED.get(mistake["type"], mistake["msg"].removeprefix("Value error, "))
            text = text[:1].lower() + text[1:]
            whole = mistake["type"] == "value_error" and not isinstance(mistake["input"], SCALAR)
            got = "" if whole or not key else f", got {mistake['input']!r}"
            lines.append(f"{full}: {text}{got}")
    return lines


def chosen(choice: str | Mapping[str, Any], kinds: Mapping[str, Any], at: str) -> Any:
    """One of the dataclasses by its name, or by {name: …} with settings. Raises ConfigError under the key `at`."""
    given: dict[str, Any] = {"name": choice} if isinstance(choice, str) else dict(choice)
    known = ", ".join(kinds)
    if "name" not in given:
        raise ConfigError([f"{at}: needs a `name`; known: {known}"])
    name = str(given.pop("name"))
    if name not in kinds:
        raise ConfigError([f"{at}: unknown {name!r}{near(name, kinds)}; known: {known}"])
    try:
        return TypeAdapter(kinds[name]).validate_python(given)
    except ValidationError as e:
        raise ConfigError(explain(e, kinds[name], at)) from None


def _path(mistake: Any) -> str:
    """The key of a mistake, without the names of the alternatives that pydantic tried."""
    return ".".join(str(p) for p in mistake["loc"] if p not in ("str", "dict[str,any]"))


def _hint(key: str, known: Sequence[str], at: str) -> str:
    """The nearest key in the same section, else anywhere; in a pack's options, all that are allowed."""
    section, _, name = key.rpartition(".")
    plain = re.sub(r"\.\d+(?=\.|$)", "", section)
    siblings = [k.rpartition(".")[2] for k in known if fnmatchcase(plain, k.rpartition(".")[0])]
    near = get_close_matches(name, siblings, 1, 0.5)
    if near:
        return f"; did you mean {'.'.join(filter(None, [section, near[0]]))}?"
    anywhere = get_close_matches(name, [k.rpartition(".")[2] for k in known], 1)
    full = next((k for k in known if anywhere and k.rpartition(".")[2] == anywhere[0]), None)
    if full:
        return f"; did you mean {full}?"
    return f"; allowed: {', '.join(siblings)}" if siblings else "; there are none here"


def _keys(kind: Any, prefix: str = "") -> Iterator[str]:
    """Every key path below a dataclass, list positions left out; `*` stands for a name of the user's."""
    for name, hint in get_type_hints(kind).items():
        if name not in {f.name for f in dataclasses.fields(kind)}:
            continue
        yield prefix + name
        for part in _parts(hint):
            if dataclasses.is_dataclass(part):
                yield from _keys(part, f"{prefix}{name}.")
            elif get_origin(part) is dict and dataclasses.is_dataclass(get_args(part)[1]):
                yield from _keys(get_args(part)[1], f"{prefix}{name}.*.")  # named by the user


def _parts(hint: Any) -> Iterator[Any]:
    if get_origin(hint) in (Union, UnionType, tuple, list):
        for arg in get_args(hint):
            yield from _parts(arg)
    else:
        yield hint
