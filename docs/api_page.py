"""The reference page of the Python API, from the public names, their source and their docstrings."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from page_text import GENERATED, cell, escape, prose

import vlrft

HEAD = f"""# Python API

{GENERATED}

`from vlrft import train, Task, …`: these names are stable; other modules may change between minor versions. A name is
imported when it is first used, and `import vlrft` loads no torch.
"""
PARTS = {  # packages whose `__all__` plugin authors use, too
    "vlrft.data": "Reading data sets, for a task's `load`",
    "vlrft.grading": "Building blocks of graders, for a reward",
    "vlrft.objectives": "Building blocks of objectives",
    "vlrft.advantages": "Building blocks of advantage estimators",
}


def api_page() -> str:
    lines = [HEAD]
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
        code, doc = find_assignment(name, module)
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


def find_assignment(name: str, module: str) -> tuple[str, str]:
    """The assignment of a constant or a type alias in the module that defines it, and the string below it."""
    home = importlib.import_module(module)
    tree = ast.parse(inspect.getsource(home))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and name in [a.name for a in node.names]:
            return find_assignment(name, str(node.module))
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
