"""Writes the reference pages of the config, the command line and the Python API: `python docs/interfaces.py`.

They are made from the config's dataclasses, from the argument parser, and from the docstrings of the public names.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import vlrft
from vlrft.cli.main import parser
from vlrft.config import Config
from vlrft.config.errors import INHERITED
from vlrft.config.field_docs import field_docs

FOLDER = Path(__file__).parent / "reference"
MADE = "Made by `make docs` from the code; change its docstrings, not this page."
CONFIG = f"""# Configuration

{MADE}

A config is a YAML file that says only what differs from the defaults below. `extends: other.yaml` takes over another file,
a path relative to this one. On the command line `key.path=value` overrides a key, such as `rollout.group_size=16` or
`stages.1.steps=50`. Each stage starts from the run's `task`, `rollout` and `update` and may change any of their keys.
An unknown key is an error. `vlrft show CONFIG` prints a config with all its keys.
"""
CLI = f"""# Command line

{MADE}

Results go to stdout, progress and messages to stderr. Exit codes: 0, done; 1, it failed; 2, wrong usage or a mistake in the
config. `--debug` shows the traceback of an error. `KEY=VALUE` arguments may come before or after the options.
"""
API = f"""# Python API

{MADE}

`from vlrft import train, Task, …`: these names are stable; other modules may change between minor versions. A name is
imported when it is first used, and `import vlrft` loads no torch.
"""
PARTS = {  # packages whose `__all__` plugin authors use, too
    "vlrft.data": "Reading data sets, for a task's `load`",
    "vlrft.grading": "Building blocks of graders, for a reward",
    "vlrft.objectives": "Building blocks of objectives",
    "vlrft.advantages": "Building blocks of advantage estimators",
}


# The config -----------------------------------------------------------------------------------------------------------


def config_page() -> str:
    lines = [CONFIG]
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
            parts = [b for b in map(bound_words, flat_metadata(args[1:])) if b]
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
            return f"list of {len(args)} {type_words(args[0], path)}s"
    if dataclasses.is_dataclass(hint):
        place = {kind: at for at, kind in sections(Config)}[hint]
        return f"[section](#{re.sub(r'[^a-z0-9_]', '', place.lower())})"
    words = {int: "integer", float: "number", str: "text", bool: "true or false", Any: "any value"}
    return {**words, type(None): "null"}.get(hint, getattr(hint, "__name__", str(hint)))


def flat_metadata(metadata: tuple[Any, ...]) -> Iterator[Any]:
    for item in metadata:
        yield from getattr(item, "metadata", [item])


def bound_words(bound: Any) -> str:
    for attribute, sign in (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤")):
        if hasattr(bound, attribute):
            return f"{sign} {getattr(bound, attribute)}"
    return ""


def default_words(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"`{json.dumps(field.default_factory())}`"
    default = field.default
    if default is dataclasses.MISSING:
        return "required"
    return "see there" if dataclasses.is_dataclass(default) else f"`{json.dumps(default)}`"


# The command line -----------------------------------------------------------------------------------------------------


def cli_page() -> str:
    lines = [CLI]
    (commands,) = [a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)]
    for name, command in commands.choices.items():
        actions = [
            a for a in command._actions if a.help is not argparse.SUPPRESS and a.dest != "help"
        ]
        lines += [f"## vlrft {name}\n", f"{capitalised(command.description or '')}.\n"]
        lines += ["```text", *usage(f"vlrft {name}", actions), "```\n"]
        lines += ["| argument | |", "| --- | --- |"]
        lines += [f"| `{argument(a)}` | {cell(a.help or '')} |" for a in actions] + [""]
    return "\n".join(lines).rstrip() + "\n"


def usage(command: str, actions: list[argparse.Action]) -> list[str]:
    """`vlrft eval --model MODEL [--limit N] [KEY=VALUE …]`, wrapped."""
    words = [command]
    for action in sorted(actions, key=optional):
        text = argument(action)
        words.append(f"[{text}]" if optional(action) else text)
    return textwrap.wrap(" ".join(words), 100, subsequent_indent=" " * 4, break_on_hyphens=False)


def optional(action: argparse.Action) -> bool:
    return action.nargs in ("*", "?") or not action.required


def argument(action: argparse.Action) -> str:
    choices = ",".join(map(str, action.choices or ()))  # not `|`, which would divide a table's cell
    value = f"{{{choices}}}" if choices else action.metavar
    value = str(value or action.dest.upper())
    if not action.option_strings:
        return f"{value} …" if action.nargs == "*" else value
    return action.option_strings[-1] + ("" if action.nargs == 0 else f" {value}")


# The Python API -------------------------------------------------------------------------------------------------------


def api_page() -> str:
    lines = [API]
    for name in sorted(vlrft.__all__, key=str.lower):
        thing = getattr(vlrft, name)
        module = vlrft._MODULE_OF[name]
        lines += [f"## {name}\n", *definition(thing, name, module)]
    for module, use in PARTS.items():
        lines += [f"## {module}\n", f"{use}.\n", "| name | |", "| --- | --- |"]
        for name in sorted(importlib.import_module(module).__all__, key=str.lower):
            thing = getattr(importlib.import_module(module), name)
            lines.append(f"| `{name}` | {cell(first_sentence(thing))} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def definition(thing: Any, name: str, module: str) -> Iterator[str]:
    """The signature or the fields, the docstring, and the methods."""
    if not inspect.isclass(thing) and not inspect.isfunction(thing):
        code, doc = assigned(name, module)
        yield f"```python\n{code}\n```\n"
        yield prose(doc)
        return
    node = ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]
    if isinstance(node, ast.FunctionDef):
        yield f"```python\n{signature(node)}\n```\n"
        yield prose(inspect.getdoc(thing) or "")
        return
    assert isinstance(node, ast.ClassDef)
    yield f"```python\n{class_head(thing, node)}\n```\n"
    yield prose(inspect.getdoc(thing) or "")
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and (
            method.name == "__call__" or not method.name.startswith("_")
        ):
            doc = " ".join((ast.get_docstring(method) or "").split())
            is_property = "property" in map(ast.unparse, method.decorator_list)
            code = (
                f"{method.name}: {ast.unparse(method.returns)}"
                if is_property
                else signature(method)
            )
            yield f"- `{code}`" + (f": {escape(doc)}" if doc else "")
    yield ""


def signature(node: ast.FunctionDef) -> str:
    """`def name(arguments) -> result`; a long one of a function has one argument a line."""
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    arguments = ast.unparse(node.args)
    one = f"def {node.name}({arguments}){result}"
    if len(one) <= 100 or arguments.startswith("self"):
        return one
    return f"def {node.name}(\n    " + ",\n    ".join(split(arguments)) + f",\n){result}"


def split(arguments: str) -> list[str]:
    """The arguments apart: split at commas outside of brackets."""
    parts, depth = [""], 0
    for character in arguments:
        depth += (character in "[({") - (character in "])}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def class_head(thing: type[Any], node: ast.ClassDef) -> str:
    """The class line and the fields as the source has them, comments and docstrings below fields included."""
    lines = textwrap.dedent(inspect.getsource(thing)).splitlines()
    fields = [n for n in node.body if isinstance(n, ast.AnnAssign)]
    head = f"class {node.name}({', '.join(map(ast.unparse, node.bases))}):".replace("()", "")
    if not fields:
        return head.rstrip(":")
    body = lines[fields[0].lineno - 1 : last_line(node, fields[-1])]
    return "\n".join([head, *body])


def last_line(node: ast.ClassDef, field: ast.AnnAssign) -> int:
    """The last line of a field, with the docstring below it."""
    after = node.body[node.body.index(field) + 1 :]
    if after and isinstance(after[0], ast.Expr):
        return after[0].end_lineno or field.lineno
    return field.end_lineno or field.lineno


def assigned(name: str, module: str) -> tuple[str, str]:
    """The assignment of a constant or a type alias in the module that defines it, and the string below it."""
    home = importlib.import_module(module)
    tree = ast.parse(inspect.getsource(home))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and name in [a.name for a in node.names]:
            return assigned(name, str(node.module))
    for node, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            text = below.value if isinstance(below, ast.Expr) else None
            doc = text.value if isinstance(text, ast.Constant) else ""
            return ast.unparse(node), str(doc)
    raise LookupError(f"{module} assigns no {name}")


def first_sentence(thing: Any) -> str:
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return ""
    paragraph = " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
    return escape(re.split(r"(?<=[.:]) (?=[A-Z])", paragraph)[0])


# Text -----------------------------------------------------------------------------------------------------------------


def prose(doc: str) -> str:
    """A docstring as Markdown: indented blocks and examples as code, the rest as text."""
    parts = []
    for paragraph in inspect.cleandoc(doc).split("\n\n"):
        code = paragraph.startswith((">>>", "    "))
        parts.append(f"```python\n{textwrap.dedent(paragraph)}\n```" if code else escape(paragraph))
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Markdown's and HTML's special characters as they are, outside of code."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(
        piece if piece.startswith("`") else re.sub(r"([*<\[])", r"\\\1", piece) for piece in pieces
    )


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


PAGES = {"config.md": config_page, "cli.md": cli_page, "api.md": api_page}

if __name__ == "__main__":
    for file, page in PAGES.items():
        (FOLDER / file).write_text(page(), encoding="utf-8")
