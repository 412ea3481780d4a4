"""Ranges of the numbers in settings: declared beside the type of a field, checked when settings are read, and printed in
the reference pages.

    lr: Annotated[float, Range(ge=0)] = 1e-6

The names below are the ranges that many settings share. A field of any settings (a section of a config, an objective, the
options of a task) has one; NaN and infinities are in none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

# Of an integer without an upper bound: more overflows in C code, far from its cause.
MAX_INTEGER = 2**31 - 1
# Of a float other than 0: beyond, float32 rounds it to 0 or to infinity, or its square does in float64.
MIN_SIZE, MAX_SIZE = 1e-30, 1e30
MAX_SEED = 2**63 - 1  # torch's and NumPy's generators take all up to this


@dataclass(frozen=True, kw_only=True)
class Range:
    """The finite numbers between two bounds, each of which may be missing: at least `ge`, greater than `gt`, at most `le`,
    less than `lt`.

    A setting has further limits where it has no bound: MAX_INTEGER for an integer, MIN_SIZE and MAX_SIZE for the size of a
    float other than 0.
    """

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def __contains__(self, value: float) -> bool:
        finite = isinstance(value, int) or math.isfinite(value)
        return (
            finite
            and (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
        )

    def __str__(self) -> str:
        """The bounds in words: `from 0 to 1`, `at least 1`."""
        if self.ge is not None and self.le is not None:
            return f"from {self.ge} to {self.le}"
        bounds = {
            "at least": self.ge,
            "greater than": self.gt,
            "at most": self.le,
            "less than": self.lt,
        }
        words = [f"{name} {bound}" for name, bound in bounds.items() if bound is not None]
        return " and ".join(words) or "every finite number"

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Pydantic's hook: the check of a field with this range. `true` is no number, and neither is a text."""
        from pydantic_core import PydanticCustomError, core_schema

        schema: Any = handler(source)
        integer = schema["type"] == "int"

        def check(value: float) -> float:
            allowed = ""
            if value not in self:
                allowed = str(self)
            elif integer and self.le is None and self.lt is None and value > MAX_INTEGER:
                allowed = str(Range(ge=self.ge, gt=self.gt, le=MAX_INTEGER))
            elif not integer and value and not MIN_SIZE <= abs(value) <= MAX_SIZE:
                allowed = f"{self}, and in size 0 or from {MIN_SIZE} to {MAX_SIZE}"
            if allowed:
                text = "out of range; allowed: {allowed}"
                raise PydanticCustomError("out_of_range", text, {"allowed": allowed})
            return value

        strict: Any = {**schema, "strict": True}
        return core_schema.no_info_after_validator_function(check, strict)


Positive = Annotated[int, Range(ge=1)]
Natural = Annotated[int, Range(ge=0)]
Seed = Annotated[int, Range(ge=0, le=MAX_SEED)]
FiniteFloat = Annotated[float, Range()]
NonNegativeFloat = Annotated[float, Range(ge=0)]
Seconds = Annotated[float, Range(gt=0, le=1e8)]  # three years; threads wait for no longer than 300
PositiveFloat = Annotated[float, Range(gt=0)]
UnitInterval = Annotated[float, Range(ge=0, le=1)]
Share = Annotated[float, Range(gt=0, le=1)]
