"""Samples that a function makes on access."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import overload

from vlrft.schema import Sample


@dataclass(frozen=True)
class LazySamples(Sequence[Sample]):
    """A sequence whose item k is `make(indices[k])`, called at each access; a slice makes no sample."""

    make: Callable[[int], Sample]
    indices: range

    def __len__(self) -> int:
        return len(self.indices)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> LazySamples: ...
    def __getitem__(self, index: int | slice) -> Sample | LazySamples:
        if isinstance(index, slice):
            return LazySamples(self.make, self.indices[index])
        return self.make(self.indices[index])
