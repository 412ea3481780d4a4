"""Which prompts come next. Every sampler is a function of its seed, of how many it drew, and of the prompts' records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Protocol

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from vlrft.config import ConfigError, Share, strict
from vlrft.mistakes import explain
from vlrft.schema import DataError, Sample
from vlrft.selection.prompt_state import PromptRecord, PromptStates


class Preference(Protocol):
    """What a sampler thinks of a prompt, given what is remembered of it."""

    def skip(self, record: PromptRecord, chance: float) -> bool:
        """Whether the prompt is passed over in its turn; `chance` is uniform in [0, 1)."""
        ...

    def weighted_share(self) -> float:
        """Share of the prompts that are drawn by weight and not in their turn."""
        ...


@strict
class Uniform:
    """Every prompt once an epoch."""

    def skip(self, record: PromptRecord, chance: float) -> bool:
        return False

    def weighted_share(self) -> float:
        return 0.0


@strict
class VarianceAware:
    """A share of each batch is drawn with weights ∝ the variance of the prompt's last rewards, p(1 − p) for right and
    wrong; the others uniformly (MMR1, arXiv 2509.21268; its diversity term is left out). Prompts that were not played
    yet have the largest weight there is."""

    share: Share = 0.5

    def skip(self, record: PromptRecord, chance: float) -> bool:
        return False

    def weighted_share(self) -> float:
        return self.share


@strict
class HistoryResampling:
    """Prompts whose last group was all right are passed over (SRPO, arXiv 2504.14286, section 3.4); those that are all
    wrong stay, for the policy may come to solve them."""

    solved: float = 1.0
    """A group without spread whose mean reward is at least this was all right."""

    def skip(self, record: PromptRecord, chance: float) -> bool:
        return record.stale > 0 and record.reward >= self.solved - 1e-9

    def weighted_share(self) -> float:
        return 0.0


@strict
class Greso:
    """A prompt whose last z groups taught nothing is passed over with probability 1 − p^z (GRESO, arXiv 2506.02177,
    Eq. 4); p differs for groups that were all right and all wrong. The paper adapts p; here it is fixed."""

    explore_solved: Annotated[float, Field(gt=0, le=1)] = 0.5
    explore_failed: Annotated[float, Field(gt=0, le=1)] = 0.5
    solved: float = 1.0

    def skip(self, record: PromptRecord, chance: float) -> bool:
        right = record.reward >= self.solved - 1e-9
        return chance >= (self.explore_solved if right else self.explore_failed) ** record.stale

    def weighted_share(self) -> float:
        return 0.0


PREFERENCES: Mapping[str, type[Uniform | VarianceAware | HistoryResampling | Greso]] = {
    "uniform": Uniform,
    "variance_aware": VarianceAware,
    "history": HistoryResampling,
    "greso": Greso,
}


def find_preference(choice: str | Mapping[str, Any], at: str) -> Preference:
    """A preference by name, or {name: …} with settings. Raises ConfigError under the key `at`."""
    given: dict[str, Any] = {"name": choice} if isinstance(choice, str) else dict(choice)
    name = str(given.pop("name", None))
    if name not in PREFERENCES:
        near = get_close_matches(name, PREFERENCES, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError([f"{at}: unknown {name!r}; {hint}known: {', '.join(PREFERENCES)}"])
    try:
        return TypeAdapter[Preference](PREFERENCES[name]).validate_python(given)
    except ValidationError as e:
        raise ConfigError(explain(e, PREFERENCES[name], at)) from None


class PromptSampler:
    """Draws samples in shuffled epochs without replacement, as its preference says. Its whole state is two counts."""

    def __init__(
        self,
        samples: Sequence[Sample],
        seed: int,
        preference: Preference | None = None,
        states: PromptStates | None = None,
    ) -> None:
        if not len(samples):
            raise DataError("no samples to train on; check task.options and the split")
        self.samples = samples
        self.seed = seed
        self.preference = preference or Uniform()
        self.states = states or PromptStates()
        self.drawn = 0  # positions that are used up, those passed over included
        self.batches = 0
        self._order: tuple[int, np.ndarray] | None = None

    @property
    def epoch(self) -> float:
        return self.drawn / len(self.samples)

    def draw(self, size: int) -> list[Sample]:
        """The next `size` samples; in turn, one may come twice only across the border of two epochs."""
        weighted = round(self.preference.weighted_share() * size)
        found = self._by_weight(min(weighted, len(self.samples)))
        self.batches += 1
        return found + [self._next() for _ in range(size - len(found))]

    def _next(self) -> Sample:
        """The next prompt that is not passed over; after a whole epoch of those, the next one whatever it is."""
        for _ in range(len(self.samples)):
            sample = self.samples[self._index(self.drawn)]
            chance = np.random.default_rng([self.seed, 1, self.drawn]).random()
            self.drawn += 1
            record = self.states.records.get(sample.id)
            if record is None or not self.preference.skip(record, chance):
                return sample
        self.drawn += 1
        return self.samples[self._index(self.drawn - 1)]

    def _by_weight(self, count: int) -> list[Sample]:
        if not count:
            return []
        records = [self.states.records.get(s.id) for s in self.samples]
        most = max((r.variance for r in records if r is not None), default=0.0) or 1.0
        weights = np.array([most if r is None else r.variance for r in records])
        weights = weights + 1e-6 * most  # so that enough can always be drawn
        generator = np.random.default_rng([self.seed, 2, self.batches])
        picked = generator.choice(
            len(weights), count, replace=False, p=weights / weights.sum(), shuffle=False
        )
        return [self.samples[int(i)] for i in picked]

    def _index(self, position: int) -> int:
        epoch, offset = divmod(position, len(self.samples))
        if self._order is None or self._order[0] != epoch:
            generator = np.random.default_rng([self.seed, epoch])
            self._order = epoch, generator.permutation(len(self.samples))
        return int(self._order[1][offset])

    def state_dict(self) -> dict[str, int]:
        return {"seed": self.seed, "drawn": self.drawn, "batches": self.batches}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self.seed, self.drawn, self.batches = state["seed"], state["drawn"], state["batches"]
