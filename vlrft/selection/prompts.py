"""The order in which prompts are drawn: every sample once an epoch, each epoch shuffled by its own seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vlrft.schema import DataError, Sample


class PromptSampler:
    """Draws samples without replacement within an epoch. Its whole state is how many were drawn."""

    def __init__(self, samples: Sequence[Sample], seed: int, drawn: int = 0) -> None:
        if not len(samples):
            raise DataError("no samples to train on; check task.options and the split")
        self.samples = samples
        self.seed = seed
        self.drawn = drawn
        self._order: tuple[int, np.ndarray] | None = None

    @property
    def epoch(self) -> float:
        return self.drawn / len(self.samples)

    def draw(self, size: int) -> list[Sample]:
        """The next `size` samples; one may come twice only across the border of two epochs."""
        positions = range(self.drawn, self.drawn + size)
        self.drawn += size
        return [self.samples[self._index(p)] for p in positions]

    def _index(self, position: int) -> int:
        epoch, offset = divmod(position, len(self.samples))
        if self._order is None or self._order[0] != epoch:
            generator = np.random.default_rng([self.seed, epoch])
            self._order = epoch, generator.permutation(len(self.samples))
        return int(self._order[1][offset])

    def state_dict(self) -> dict[str, int]:
        return {"seed": self.seed, "drawn": self.drawn}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self.seed, self.drawn = state["seed"], state["drawn"]
