"""Settings that differ from their defaults."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def changed_settings(settings: DataclassInstance) -> dict[str, Any]:
    """Name -> value of the fields of a dataclass that differ from their defaults; without those that have none."""
    changed: dict[str, Any] = {}
    for field in fields(settings):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        value = getattr(settings, field.name)
        if default is not MISSING and value != default:
            changed[field.name] = value
    return changed
