"""The prompt sampler: the next prompts, from the seed, the number drawn so far and the rewards of earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vlrft.config.choice import choose
from vlrft.distributed.phases import phase
from vlrft.schema import Sample
from vlrft.schema.errors import NoRowsError
from vlrft.selection.prefetch import Prefetcher
from vlrft.selection.prompt_state import PromptRecord, PromptStates
from vlrft.selection.prompt_strategies import PROMPT_STRATEGIES, PromptStrategy, Uniform


def find_prompt_strategy(choice: str | Mapping[str, Any], at: str) -> PromptStrategy:
    """A prompt strategy by name, or {name: …} with settings. Raises ConfigError under the key `at`."""
    return choose(choice, PROMPT_STRATEGIES, at=at)


class PromptSampler:
    """Draws samples in shuffled epochs, without replacement, except where its strategy skips or weights them.

    The caller updates `states` with the groups that were played, so that a draw depends on the one before it.
    """

    def __init__(
        self,
        samples: Sequence[Sample],
        seed: int,
        strategy: PromptStrategy | None = None,
        states: PromptStates | None = None,
    ) -> None:
        if not len(samples):
            raise NoRowsError("no samples to train on; check task.options and the split")
        self.samples = samples
        self.seed = seed
        self.strategy = strategy or Uniform()
        self.states = states or PromptStates()
        self.drawn = 0  # positions used up over all epochs, including skipped ones
        self.weighted = 0  # prompts that were drawn by weight
        self.batches = 0
        self._last: list[str] = []  # ids of the latest draw
        self._order: tuple[int, np.ndarray] | None = None
        self._prefetcher: Prefetcher | None = None
        self._ids: dict[int, str] = {}  # by index; making a sample again to read its id may be slow

    def prefetch(self, process: Callable[[Sample], object], threads: int) -> None:
        """From now on, threads open the samples that will probably come next and process their images."""
        self._prefetcher = Prefetcher(self.samples, process, threads)
        self.samples = self._prefetcher

    def close(self) -> None:
        """Ends the threads, if there are any."""
        if self._prefetcher is not None:
            self._prefetcher.close()

    @property
    def epoch(self) -> float:
        """Shuffled epochs so far, without prompts that were drawn by weight."""
        return self.drawn / len(self.samples)

    @phase("data")
    def draw(self, size: int) -> list[Sample]:
        """The next `size` samples. Without weights, one appears twice only where an epoch ends within the draw."""
        if self.epoch >= 1:  # no prompt can be skipped in the first epoch
            last = [r for name in self._last if (r := self.states.records.get(name)) is not None]
            self.strategy = self.strategy.adapt(last) if last else self.strategy
        weighted = round(self.strategy.weighted_share() * size)
        samples = self._draw_by_weight(min(weighted, len(self.samples)))
        self.weighted += len(samples)
        self.batches += 1
        samples += [self._next() for _ in range(size - len(samples))]
        self._last = [s.id for s in samples]
        if self._prefetcher is not None:
            self._prefetcher.announce(map(self._index, range(self.drawn, self.drawn + size)))
        return samples

    def _next(self) -> Sample:
        """The next prompt that is not skipped; after a whole epoch of skipped ones, simply the next."""
        for _ in range(len(self.samples)):
            position = self.drawn
            self.drawn += 1
            index = self._index(position)
            sample = None if index in self._ids else self._sample(index)
            record = self.states.records.get(self._ids[index])
            if record is None or not self.strategy.skip(record, self._chance(position)):
                return sample or self._sample(index)
        self.drawn += 1
        return self._sample(self._index(self.drawn - 1))

    def _draw_by_weight(self, count: int) -> list[Sample]:
        if not count:
            return []
        ids = [self._ids.get(i) or self._sample(i).id for i in range(len(self.samples))]
        records = [self.states.records.get(name) for name in ids]
        known = [None if r is None else self.strategy.weight(r) for r in records]
        unplayed = self.strategy.weight(PromptRecord())
        most = max((w for w in known if w is not None), default=0.0)
        most = max(most, unplayed) or 1.0
        weights = np.array([most if w is None else w for w in known])
        weights = weights + 1e-6 * most  # so that `count` prompts can always be drawn
        generator = np.random.default_rng([self.seed, 2, self.batches])
        picked = generator.choice(
            len(weights), count, replace=False, p=weights / weights.sum(), shuffle=False
        )
        return [self._sample(int(i)) for i in picked]

    def _sample(self, index: int) -> Sample:
        sample = self.samples[index]
        self._ids[index] = sample.id
        return sample

    def _chance(self, position: int) -> float:
        return float(np.random.default_rng([self.seed, 1, position]).random())

    def _index(self, position: int) -> int:
        epoch, offset = divmod(position, len(self.samples))
        if self._order is None or self._order[0] != epoch:
            generator = np.random.default_rng([self.seed, epoch])
            self._order = epoch, generator.permutation(len(self.samples))
        return int(self._order[1][offset])

    def state_dict(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "drawn": self.drawn,
            "weighted": self.weighted,
            "batches": self.batches,
            "last": list(self._last),
            "preference": dict(vars(self.strategy)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.seed, self.drawn, self.batches = state["seed"], state["drawn"], state["batches"]
        self.weighted = count_drawn(state) - self.drawn
        self._last = list(state["last"])
        self.strategy = type(self.strategy)(**state["preference"])


def count_drawn(state: Mapping[str, Any]) -> int:
    """The prompts that a sampler in this state has drawn or skipped. Checkpoints of earlier versions do not count those that
    were drawn by weight."""
    drawn: int = state["drawn"] + state.get("weighted", 0)
    return drawn
