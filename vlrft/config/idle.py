"""Settings that have no effect beside others of their section, which the section refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vlrft.config.errors import shorten
from vlrft.schema.changed_settings import changed_settings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def refuse_idle(settings: DataclassInstance, *names: str, beside: str, unless: str) -> None:
    """Raises ValueError for those of the settings `names` that differ from their defaults, as they have no effect.

    `beside`: the settings that make them idle, such as `wrong: mean`; `unless`: those with which they have an effect.
    """
    idle = {k: v for k, v in changed_settings(settings).items() if k in names}
    if idle:
        listed = " and ".join(shorten(f"{name}: {value}") for name, value in idle.items())
        verb, them = ("has", "it") if len(idle) == 1 else ("have", "them")
        raise ValueError(
            f"{listed} {verb} no effect with {beside}; leave {them} out, or use {unless}"
        )
