"""`strict`, the decorator of every section of settings."""

from __future__ import annotations

from dataclasses import field
from typing import TypeVar, cast

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass
from typing_extensions import dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def strict(cls: type[T]) -> type[T]:
    """A frozen, keyword-only dataclass that checks the types of its values and refuses unknown keys."""
    make = dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
    return cast("type[T]", make(cls))
