"""A point by the names of its coordinates: `x = 3, y = -2` is (3, -2).

Coordinates come in the order of their names: x before y, a before b, x_2 before x_10, in whatever
order they are written.
"""

from __future__ import annotations

import re

from vlrft.grading.math.forms import Form, Many, Named, Quantity

_NAME = re.compile(r"([^\W\d_]+)(?:_([0-9]{1,4}|[^\W\d_]))?")


def point(form: Form) -> Many | None:
    """The named values in the order of their names; None for what is not one value a name."""
    if not isinstance(form, Many) or form.left or len(form.items) < 2:
        return None
    values: dict[tuple[str, int, str], Form] = {}
    for item in form.items:
        found = _NAME.fullmatch(item.name) if isinstance(item, Named) else None
        if found is None or not isinstance(item, Named) or not isinstance(item.value, Quantity):
            return None
        index = found[2] or ""
        values[found[1], int(index) if index.isdigit() else 0, index] = item.value
    if len(values) < len(form.items):
        return None  # x = 1 or x = 2
    return Many(tuple(values[name] for name in sorted(values)), "(", ")")


def solutions(form: Form) -> bool:
    """Whether names tell no value from another: `x_1 = 2, x_2 = 5` are two of x."""
    return isinstance(form, Many) and len(
        {item.name.partition("_")[0] for item in form.items if isinstance(item, Named)}
    ) < len(form.items)


def spread(form: Form) -> Form:
    """`(x, y) = (3, -2)` as x = 3, y = -2; any other form as it is."""
    if not isinstance(form, Named) or not isinstance(form.value, Many) or form.name[:1] != "(":
        return form
    names = form.name[1:-1].split(",")
    values = form.value.items
    if (form.value.left, form.value.right) != ("(", ")") or len(names) != len(values):
        return form
    return Many(tuple(map(Named, names, values)))
