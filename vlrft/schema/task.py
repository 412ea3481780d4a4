"""A task pack: samples, rewards and graders, and the figures of an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from vlrft.schema.env import Env
from vlrft.schema.rollout import Turn
from vlrft.schema.sample import Sample

if TYPE_CHECKING:
    from pathlib import Path


Score = float | None | Mapping[str, float | None]
"""What a reward returns: a number, None (not applicable to this sample), or several named numbers."""


@runtime_checkable
class Reward(Protocol):
    """A verifiable reward: what one completion earns. 0.0 for a wrong or unreadable answer; raises DataError for an
    unreadable *gold* answer; None when the reward does not apply to this sample."""

    def __call__(self, completion: str, sample: Sample) -> Score: ...


@dataclass(frozen=True, kw_only=True)
class Record:
    """One graded answer, as it is written and as metrics read it. Several answers to a sample are several records."""

    id: str
    output: str
    grades: Mapping[str, float] = field(default_factory=dict[str, float])  # grader -> grade
    extracted: str | None = None  # what the strict grader took for the answer
    scores: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])
    errors: Mapping[str, str] = field(default_factory=dict[str, str])
    turns: tuple[tuple[str, Turn], ...] = ()  # what was said, and what the environment made of it
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    answer: Any = None
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])
    truncated: bool = False


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One figure of an evaluation: a value an item, and how to aggregate them."""

    values: tuple[float, ...]
    threshold: float = 1.0  # an item counts as correct from here on
    trials: int = 1  # answers whose mean each value is
    share: bool = True  # of 1, shown in percent; otherwise a number with a unit of its own
    aggregate: Callable[[Sequence[int]], float] | None = (
        None  # of the items at these places; mean unless given
    )


@runtime_checkable
class RecordCompleter(Protocol):
    """The records with what they still lack before they are measured, such as what takes a model besides the policy:
    one for each, in their order. The samples have their images; a record belongs to the sample of its id."""

    def __call__(
        self, samples: Sequence[Sample], records: Sequence[Record]
    ) -> Sequence[Record]: ...


@dataclass(frozen=True, kw_only=True)
class Resize:
    """How an image processor brings images to the size that the policy sees."""

    min_pixels: int  # bounds of the area
    max_pixels: int
    factor: int = 28  # both sides are multiples of it

    def __str__(self) -> str:
        bounds = f"{self.min_pixels} to {self.max_pixels} pixels"
        return f"{bounds}, in multiples of {self.factor} a side"


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task pack. `load(split, options)` gives samples; `gold(sample)` is a completion that earns full marks.

    Options are an instance of `options`, a frozen dataclass whose fields the config checks. A grade is what the first
    of a grader's rewards that applies gives; another grader than the strict one may apply to no sample, and then has no
    figures. Of the measures the first is the headline.
    """

    name: str
    doc: str
    options: type[Any]
    splits: tuple[str, ...]
    load: Callable[[str, Any], Sequence[Sample]]
    rewards: Mapping[str, float]  # reward name -> weight
    graders: Mapping[
        str, tuple[str, ...]
    ]  # "strict" and, where there is a published one, "official" -> rewards
    gold: Callable[[Sample], str | Sequence[str]]  # with `env`: what to say turn by turn
    metrics: Callable[[Sequence[Record], str], Mapping[str, Metric]] | None = (
        None  # of a grader; None: its accuracy
    )
    extract: Callable[[str], str | None] | None = (
        None  # completion -> its answer; None: the answer tag
    )
    env: Callable[[Sample], Env] | None = None  # None: a single turn
    env_scores: tuple[str, ...] = ()  # that every play's environment gives; graders may name them
    generate: Callable[[str, int, int, Path], Iterator[str]] | None = (
        None  # split, count, seed, folder -> makes the data, telling what it made
    )
    resize: Callable[[Any], Resize | None] | None = (
        None  # options -> what its answers take for the policy's, where they do
    )
    complete: Callable[[Any], RecordCompleter | None] | None = (
        None  # options -> what completes records
    )
