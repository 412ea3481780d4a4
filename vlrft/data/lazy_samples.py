"""Samples that a function makes when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import overload

from vlrft.schema import Sample


@dataclass(frozen=True)
class Made(Sequence[Sample]):
    """The sample of each place; a slice makes none yet."""

    make: Callable[[int], Sample]
    places: range

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> Made: ...
    def __getitem__(self, index: int | slice) -> Sample | Made:
        if isinstance(index, slice):
            return Made(self.make, self.places[index])
        return self.make(self.places[index])
