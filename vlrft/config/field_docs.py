"""The docstrings of a dataclass's fields: the strings written below them, which Python itself does not keep."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import is_dataclass
from typing import Any


def field_docs(kind: type[Any]) -> dict[str, str]:
    """Field -> its docstring on one line, for the fields that have one. Those of base classes too. Needs the sources of the classes."""
    docs: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if is_dataclass(base):
            docs |= _own_docs(base)
    return docs


def _own_docs(kind: type[Any]) -> dict[str, str]:
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    docs: dict[str, str] = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    docs[field.target.id] = " ".join(text.split())
                case _:
                    pass
    return docs
