"""Settings that have no effect beside others of their section, which the section refuses."""

from __future__ import annotations

import dataclasses
from typing import Any

from vlrft.config.errors import shorten


def refuse_idle(settings: object, *names: str, beside: str, unless: str) -> None:
    """Raises ValueError for those of the settings `names` that differ from their defaults, as they have no effect.

    `beside`: the settings that make them idle, such as `wrong: mean`; `unless`: those with which they have an effect.
    """
    assert dataclasses.is_dataclass(settings)
    idle: dict[str, Any] = {
        f.name: getattr(settings, f.name)
        for f in dataclasses.fields(settings)
        if f.name in names and getattr(settings, f.name) != f.default
    }
    if idle:
        listed = " and ".join(shorten(f"{name}: {value}") for name, value in idle.items())
        verb, them = ("has", "it") if len(idle) == 1 else ("have", "them")
        raise ValueError(
            f"{listed} {verb} no effect with {beside}; leave {them} out, or use {unless}"
        )
