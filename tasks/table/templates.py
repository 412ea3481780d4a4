"""Templates of prompts: texts with {question}, {choices}, {classes}, {unit} and {column} of any column of the table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vlrft.schema import DataError

from .entry import Entry
from .kind import AnswerKind

RESERVED = ("question", "choices", "classes", "unit")
_PLACE = re.compile(r"\{\{|\}\}|\{([^{}\n]+)\}")
_NAME = re.compile(r"\w[\w. -]*")


def placeholders(template: str) -> Iterator[str]:
    """The names in braces, in their order; `{{` and `}}` are braces, and so is what is no name, such as {}."""
    for place in _PLACE.finditer(template):
        if place[1] and _NAME.fullmatch(place[1]):
            yield place[1]


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with its names replaced, in one pass. A line of which nothing is left but white space is left out. Raises
    KeyError for a name without a value."""

    def text(place: re.Match[str]) -> str:
        name = place[1]
        if name is None:
            return place[0][0]
        return values[name] if _NAME.fullmatch(name) else place[0]

    return _PLACE.sub(text, template)


def check_prompt(
    template: str | None,
    system: str | None,
    entries: Sequence[Entry],
    answer_column: str | None,
    kind: AnswerKind,
) -> list[str]:
    """Notes on the options' prompt. Raises DataError for a name in it that is no column, and for the gold answer's."""
    if template is None:
        return []
    columns = tuple(dict.fromkeys(name for entry in entries for name in entry.columns))
    for name in placeholders(template):
        if name in RESERVED:
            continue
        if name == answer_column:
            raise DataError(
                f"options.prompt: {{{name}}} is the gold answer; write {{{{{name}}}}} for these letters in braces"
            )
        if name not in columns:
            raise DataError(
                f"options.prompt: no column {name!r}; columns are {', '.join(columns)}; write {{{{ and }}}} for braces"
            )
    notes: list[str] = []
    if "question" not in placeholders(template) and any(e.question for e in entries):
        notes.append("options.prompt has no {question}: the questions of the table are not asked")
    asked = f"{system or ''}{template}"
    if kind.rewards and "<answer>" not in asked and not (kind.boxed and "\\boxed" in asked):
        notes.append(
            f"options.prompt does not ask for <answer>…</answer>, in which {kind.strict[0]} reads the answer: without it "
            "every answer earns 0"
        )
    return notes


def template_columns(template: str | None, entry: Entry) -> dict[str, Any]:
    """The columns that the template names, for a row's info. Raises ValueError for one that the entry lacks."""
    names = [n for n in placeholders(template or "") if n not in RESERVED]
    for name in names:
        if entry.columns.get(name) is None:
            raise ValueError(f"no {name}, which the prompt names")
    return {"columns": {name: str(entry.columns[name]) for name in names}} if names else {}
