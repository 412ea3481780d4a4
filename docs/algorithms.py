"""Writes docs/reference/algorithms.md from the methods' own docstrings: `python docs/algorithms.py`."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from vlrft.advantages import ESTIMATORS
from vlrft.algorithms import ALGORITHMS, Algorithm
from vlrft.objectives import Reduction, token_weights
from vlrft.objectives.regularizer import Regularizer

PAGE = Path(__file__).parent / "reference" / "algorithms.md"
HEAD = """# Methods

Made by `python docs/algorithms.py` from the docstrings of the code; change those, not this page. `vlrft show METHOD` prints
one of them, and the configuration overrides any key: `algorithm: {name: gmpo, objective: {clip_high: 0.3}}`.
Axes: g groups (P of them in a step, P_valid whose rewards differ), i rollouts, t action tokens; μ_g, σ_g a group's mean
and unbiased standard deviation; ρ the ratio of the policy to the one that sampled.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, "## At a glance\n", *_overview(), "\n## The methods\n"]
    for method in ALGORITHMS.values():
        parts += [f"### {method.name}\n", f"{method.doc}\n", *_bundle(method)]
    parts.append("\n## Objectives\n")
    for kind in dict.fromkeys(type(m.objective) for m in ALGORITHMS.values()):
        parts += _class(kind, "Objective")
    parts += ["## What any method may add: `regularize`\n", *_class(Regularizer, "Class")]
    parts += ["## Reductions\n", _code(inspect.getdoc(token_weights) or ""), ""]
    parts.append(f"Names: {', '.join(f'`{name}`' for name in get_args(Reduction))}.\n")
    parts += ["## Advantage estimators\n", "| name | equation | |", "| --- | --- | --- |"]
    parts += [f"| `{e.name}` | {_cell(e.equation)} | {_cell(e.doc)} |" for e in ESTIMATORS.values()]
    return "\n".join(parts) + "\n"


def _overview() -> Iterator[str]:
    yield "| method | paper | advantage | reduction | keeps | computes besides log-probs |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for m in ALGORITHMS.values():
        told = m.describe()
        cells = (
            m.paper,
            m.estimator.name,
            m.reduction,
            type(m.keep).__name__,
            told["computes"].partition("; ")[2],
        )
        yield f"| [`{m.name}`](#{m.name}) | " + " | ".join(map(_cell, cells)) + " |"


def _bundle(method: Algorithm) -> Iterator[str]:
    yield "| | |"
    yield "| --- | --- |"
    for key, value in method.describe().items():
        if key == "objective":
            name = type(method.objective).__name__
            yield f"| objective | [`{name}`](#objective-{name.lower()}): `{_cell(value)}` |"
        elif key not in ("doc", "notes"):
            yield f"| {key} | {_cell(value)} |"
    yield f"\n{method.notes}\n" if method.notes else ""


def _class(kind: type[Any], title: str) -> Iterator[str]:
    """A class with its docstring, equations as code, and its settings."""
    yield f"### {title} {kind.__name__}\n"
    for paragraph in (inspect.getdoc(kind) or "").split("\n\n"):
        yield f"{_code(paragraph) if _is_equation(paragraph) else paragraph}\n"
    told = _field_docs(kind)
    for field in dataclasses.fields(kind):
        doc = " ".join(told.get(field.name, "").split())
        yield f"- `{field.name}` = `{field.default!r}`" + (f": {doc}" if doc else "")
    yield ""


def _is_equation(paragraph: str) -> bool:
    first = paragraph.split("\n")[0]
    return " = " in first or first.startswith(("ℓ", "L ", "L_"))


def _code(text: str) -> str:
    return "```text\n" + text + "\n```"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _field_docs(kind: type[Any]) -> dict[str, str]:
    """The strings that stand below the fields."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for above, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(above, ast.AnnAssign) and isinstance(above.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    found[above.target.id] = text
                case _:
                    pass
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
