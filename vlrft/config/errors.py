"""The wording of config mistakes: pydantic's errors as one line each, with the key, the mistake and a hint."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import ValidationError

from vlrft.config.foreign_names import key_of_foreign, option_of_foreign
from vlrft.config.renamed import new_key
from vlrft.plugins.names import nearest, unknown_name

INHERITED = ("task", "rollout", "update")  # sections of a run that its stages start from
SCALAR = (str, int, float, list, tuple, type(None))
EXPECTED = {  # in the words of YAML, not of Python
    "dataclass_type": "expected a section of keys",
    "tuple_type": "expected a list",
    "dict_type": "expected a section of keys",
    "name_or_section": "expected a name or a section of keys",
    "too_short": "expected at least one item",
    "string_type": "expected a text",
    "string_too_short": "expected a text of at least one character",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
}

FREE = ("algorithm", "task")  # sections with keys that only an algorithm or a pack knows
ELSEWHERE = (
    0.8  # likeness of a key in another section, which is a bolder guess than one in the same
)
MAX_LINES = 50  # of mistakes
MAX_SHOWN = 80  # characters of a wrong value in a message

SHORTER = {  # the longer ones first
    "Input should be greater than or equal to": "must be at least",
    "Input should be less than or equal to": "must be at most",
    "Input should be greater than": "must be greater than",
    "Input should be less than": "must be less than",
    "Input should be": "must be",
}


def explain(error: ValidationError, root: Any, at: str = "") -> list[str]:
    """One line for each mistake, of the first fifty. `root`: the dataclass that was validated; `at`: its own key in the config."""
    keys = list(keys_of(root))
    mistakes = _merge_alternatives([(_path(mistake), mistake) for mistake in error.errors()])
    inherited = {path for path, _ in mistakes if path.split(".")[0] in (*INHERITED, "algorithm")}
    lines: list[str] = []
    for number, (key, mistake) in enumerate(mistakes):
        if len(lines) == MAX_LINES:
            return [*lines, f"and {len(mistakes) - number} more mistakes"]
        if mistake["type"] == "too_short" and mistake["input"]:
            continue  # some of its items are invalid, and each of them has its own line
        in_stage = re.sub(r"^stages\.\d+\.", "", key)
        if in_stage != key and any(f"{in_stage}.".startswith(f"{path}.") for path in inherited):
            continue  # a mistake in a section of the run, repeated in a stage that inherits it
        full = ".".join(filter(None, [at, key]))
        renamed = new_key(full)
        if mistake["type"] in ("unexpected_keyword_argument", "extra_forbidden") and renamed:
            lines.append(f"{full}: renamed {renamed}")
        elif mistake["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            lines += _unknown_keys(full, key, mistake["input"], keys)
        elif mistake["type"] in ("missing", "missing_argument"):
            lines.append(f"{full}: missing")
        elif mistake["type"] == "out_of_range":
            lines.append(f"{full}: {show(mistake['input'])} is {mistake['msg']}")
        elif mistake["type"] == "literal_error" and isinstance(mistake["input"], str):
            names = re.findall(r"'([^']*)'", mistake.get("ctx", {})["expected"])
            last = key.rpartition(".")[2]
            kind = "name" if last.isdecimal() else last  # an item of a list has a number
            lines.append(f"{full}: {unknown_name(kind, mistake['input'], names)}")
        else:
            text = EXPECTED.get(mistake["type"]) or mistake["msg"].removeprefix("Value error, ")
            for words, shorter in SHORTER.items():
                text = text.replace(words, shorter)
            text = text[:1].lower() + text[1:]
            whole = mistake["type"] == "value_error" and not isinstance(mistake["input"], SCALAR)
            value = "" if whole or not key else f", got {show(mistake['input'])}"
            lines.append(f"{full}: {text}{value}")
    return lines


def _merge_alternatives(mistakes: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The mistakes with one for each value that is neither of two alternatives, a name and a section."""
    texts = {path for path, mistake in mistakes if mistake["type"] == "string_type"}
    sections = {path for path, mistake in mistakes if mistake["type"] == "dict_type"}
    merged: list[tuple[str, Any]] = []
    for path, mistake in mistakes:
        if path not in texts & sections:
            merged.append((path, mistake))
        elif mistake["type"] == "dict_type":
            merged.append((path, {**mistake, "type": "name_or_section"}))
    return merged


def show(value: object) -> str:
    """The value as Python writes it, shortened to one line."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a list in itself
        article = "an" if type(value) is int else "a"
        return f"{article} {type(value).__name__} too long to print"
    return shorten(text)


def shorten(text: str) -> str:
    """The start of a long text."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _path(mistake: Any) -> str:
    """The dotted key of a mistake, without the alternatives of a union that pydantic tried."""
    return ".".join(str(p) for p in mistake["loc"] if p not in ("str", "dict[str,any]"))


def _unknown_keys(full: str, key: str, value: Any, keys: Sequence[str]) -> Iterator[str]:
    """A line for an unknown key; for a section of another toolkit, such as `actor_rollout_ref`, one for each of its keys
    that has a counterpart here."""
    inner = [
        path
        for path in _paths_in(value, full)
        if _counterpart(path, keys) or option_of_foreign(path)
    ]
    if not inner or _counterpart(full, keys, least=2):
        inner = [full]
    for path in inner:
        yield f"{path}: unknown key{_hint(path, key if path == full else path, keys)}"


def _paths_in(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _paths_in(part, f"{path}.{name}")
    else:
        yield path


def _hint(full: str, key: str, keys: Sequence[str]) -> str:
    """The key that was probably meant: another toolkit's name for a key of ours, the nearest key in the same section, the nearest
    in any section; else all keys of the section. `full`: the key from the root of the config, `key`: from that of `keys`."""
    section, _, name = key.rpartition(".")
    pattern = re.sub(r"\.\d+(?=\.|$)", "", section)
    name, colon, value = name.partition(":")
    siblings = [k.rpartition(".")[2] for k in keys if fnmatchcase(pattern, k.rpartition(".")[0])]
    close = nearest(name, siblings)
    if colon and close:
        return f"; did you mean {close}: {value}, with a space after the colon?"
    ours = _counterpart(full, keys, least=2) or ("" if close else _counterpart(full, keys))
    if ours:
        return f"; did you mean {_in_stage(ours, full)}?"
    if close:
        return f"; did you mean {'.'.join(filter(None, [section, close]))}?"
    option = option_of_foreign(full)
    if option:
        return f"; give {option} on the command line"
    elsewhere = [k for k in keys if "*" not in k]
    anywhere = nearest(name, [k.rpartition(".")[2] for k in elsewhere], ELSEWHERE)
    meant = next((k for k in elsewhere if anywhere and k.rpartition(".")[2] == anywhere), None)
    if meant:
        meant = re.sub(r"^stages\.", "stages.0.", meant)
        return f"; did you mean {_in_stage(meant, full)}?"
    return f"; allowed: {', '.join(siblings)}" if siblings else "; there are none here"


def _counterpart(full: str, keys: Sequence[str], *, least: int = 1) -> str:
    """Our key and its unit for another toolkit's key, if it is a key of the config that is read; else nothing."""
    ours = key_of_foreign(full, least=least) or ""
    key, _, _ = ours.partition(" ")
    known = key.replace("stages.0.", "stages.") in keys
    free = key.partition(".")[0] in FREE and (
        key.partition(".")[0] in keys or full.startswith("algorithm.")
    )
    inside = full.partition(".")[0] == key.partition(".")[0]
    return ours if ours and (known or free or inside) else ""


def _in_stage(ours: str, full: str) -> str:
    """The key as that of the stage in which the mistake is, where stages have one."""
    stage = re.match(r"stages\.\d+\.", full)
    if stage is None:
        return ours
    if ours.startswith("stages.0."):
        return stage[0] + ours.removeprefix("stages.0.")
    return stage[0] + ours if ours.partition(".")[0] in (*INHERITED, "algorithm") else ours


def keys_of(kind: Any, prefix: str = "") -> Iterator[str]:
    """Every dotted key below a dataclass, without list positions; `*` is a name that the user chooses."""
    infos = getattr(kind, "__pydantic_fields__", {})
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        alias = infos[field.name].alias if field.name in infos else None
        name = alias or field.name
        yield prefix + name
        for part in _members(hints[field.name]):
            if dataclasses.is_dataclass(part):
                yield from keys_of(part, f"{prefix}{name}.")
            elif get_origin(part) is dict and dataclasses.is_dataclass(get_args(part)[1]):
                yield from keys_of(get_args(part)[1], f"{prefix}{name}.*.")


def _members(hint: Any) -> Iterator[Any]:
    """The types that a union or a list is made of."""
    if get_origin(hint) in (Union, UnionType, tuple, list):
        for arg in get_args(hint):
            yield from _members(arg)
    else:
        yield hint
