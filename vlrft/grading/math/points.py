"""Points written by the names of their coordinates: `x = 3, y = -2` is (3, -2).

Coordinates are in the order of their names: x before y, a before b, x_2 before x_10, in whatever order they are
written.
"""

from __future__ import annotations

import re

from vlrft.grading.math.forms import Collection, Form, NamedValue, Quantity

_NAME = re.compile(r"([^\W\d_]+)(?:_([0-9]{1,4}|[^\W\d_]))?")


def as_point(form: Form) -> Collection | None:
    """The named values in the order of their names; None when the form is not one value a name."""
    if not isinstance(form, Collection) or form.left or len(form.items) < 2:
        return None
    values: dict[tuple[str, int, str], Form] = {}
    for item in form.items:
        name = _NAME.fullmatch(item.name) if isinstance(item, NamedValue) else None
        if name is None or not isinstance(item, NamedValue) or not isinstance(item.value, Quantity):
            return None
        index = name[2] or ""
        values[name[1], int(index) if index.isdigit() else 0, index] = item.value
    if len(values) < len(form.items):
        return None  # x = 1 or x = 2
    return Collection(tuple(values[name] for name in sorted(values)), "(", ")")


def has_repeated_letter(form: Form) -> bool:
    """Whether two names share a letter: `x_1 = 2, x_2 = 5` are two values of x."""
    return isinstance(form, Collection) and len(
        {item.name.partition("_")[0] for item in form.items if isinstance(item, NamedValue)}
    ) < len(form.items)


def split_point(form: Form) -> Form:
    """`(x, y) = (3, -2)` as x = 3, y = -2; any other form as it is."""
    if (
        not isinstance(form, NamedValue)
        or not isinstance(form.value, Collection)
        or form.name[:1] != "("
    ):
        return form
    names = form.name[1:-1].split(",")
    values = form.value.items
    if (form.value.left, form.value.right) != ("(", ")") or len(names) != len(values):
        return form
    return Collection(tuple(map(NamedValue, names, values)))
