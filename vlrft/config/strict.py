"""How a section of settings is written: a frozen dataclass that refuses what it does not know."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, TypeVar, cast

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass
from typing_extensions import dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def strict(cls: type[T]) -> type[T]:
    """A frozen keyword-only dataclass whose values are checked and whose unknown keys are errors."""
    make = dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
    return cast("type[T]", make(cls))


Positive = Annotated[int, Field(gt=0, strict=True)]  # strict: `true` is no number
Natural = Annotated[int, Field(ge=0, strict=True)]
Share = Annotated[float, Field(ge=0, le=1)]
