"""A task pack: its samples, rewards and graders, and the metrics of an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

from vlrft.schema.env import Env
from vlrft.schema.rollout import Turn
from vlrft.schema.sample import Sample

if TYPE_CHECKING:
    from pathlib import Path


Score = float | None | Mapping[str, float | None]
"""The result of a reward: a number, None (not applicable to this sample), or several named numbers."""


@runtime_checkable
class Reward(Protocol):
    """A verifiable reward: the score of one completion.

    0.0 for a wrong or unreadable answer, 1.0 for the best one (see `best_score`); None when the reward does not apply to
    this sample. Raises DataError for an unreadable *gold* answer.
    """

    def __call__(self, completion: str, sample: Sample) -> Score: ...


Function = TypeVar("Function", bound=Callable[..., Any])


def best_score(value: float) -> Callable[[Function], Function]:
    """Decorator that states the highest score of a reward function, or of each of its parts, where that is not 1.0."""

    def mark(function: Function) -> Function:
        function.best_score = value  # type: ignore[attr-defined]
        return function

    return mark


def no_grader(function: Function) -> Function:
    """Decorator of a reward that reads no gold answer, such as one of the form or the length: where a run's own rewards are the
    strict grader, it is not one of them."""
    function.no_grader = True  # type: ignore[attr-defined]
    return function


@dataclass(frozen=True, kw_only=True)
class Unreadable:
    """Why a reward could read no answer in a completion."""

    why: str
    """Said alike of alike completions, so that they can be counted: `no <answer> tag`."""
    option: tuple[str, str] | None = None
    """Name and value of an option with which a task asks for what the completion has, where a task has such an option."""


WhyUnreadable = Callable[[str, Sample], Unreadable | None]
"""Completion, sample -> why the reward reads no answer in it; None where it reads one. Called where the reward is 0."""


def explain_unreadable(why: WhyUnreadable) -> Callable[[Function], Function]:
    """Decorator that gives a reward function its reasons for an unreadable answer, which evaluations count. A reward
    without it is explained by its task's `extract`: a completion without an answer is unreadable."""

    def mark(function: Function) -> Function:
        function.why_unreadable = why  # type: ignore[attr-defined]
        return function

    return mark


@dataclass(frozen=True, kw_only=True)
class Record:
    """One graded answer, as it is written to a file and as metrics read it. Each answer to a sample is one record."""

    id: str
    output: str
    grades: Mapping[str, float] = field(default_factory=dict[str, float])  # grader -> grade
    extracted: str | None = None  # the answer that the strict grader read
    scores: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])
    errors: Mapping[str, str] = field(default_factory=dict[str, str])
    turns: tuple[tuple[str, Turn], ...] = ()  # the policy's text and the turn
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    answer: Any = None
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])
    truncated: bool = False
    unreadable: str = ""  # why the strict grader could read no answer; "" where it read one


Detail = Literal["class", "box"]
"""A table of an evaluation beside its metrics. class: accuracy of each class, and confusions. box: IoU curve and accuracy
by the size of the gold box, of records whose strict grade is the IoU with it."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric of an evaluation: a value for each item, and how to aggregate them."""

    values: tuple[float, ...]
    threshold: float = 1.0  # an item with at least this value counts as correct
    trials: int = 1  # the number of answers of which each value is the mean
    correct: int | None = None
    """The number of answers whose own grade reaches the threshold. None: that of the values which reach it, or, of means of several
    answers, their sum, as of grades that are 0 or 1."""
    share: bool = True  # a share of 1, printed in percent; otherwise a number with its own unit
    aggregate: Callable[[Sequence[int]], float] | None = None
    """Indices of items -> the metric over them; None: the mean of their values."""


@runtime_checkable
class RecordCompleter(Protocol):
    """Adds to records what only a pass over all of them can compute before they are aggregated, such as the output of
    a second model. Returns a record for each, in their order. The samples have their images; a record belongs to the
    sample with its id."""

    def __call__(
        self, samples: Sequence[Sample], records: Sequence[Record]
    ) -> Sequence[Record]: ...


@dataclass(frozen=True, kw_only=True)
class Resize:
    """The rule by which an image processor resizes images before the policy gets them."""

    min_pixels: int  # of the area
    max_pixels: int
    factor: int = 28  # both sides are multiples of it
    enlarge_sides: bool = False  # an image with a side below `factor` is enlarged until it has none

    def __str__(self) -> str:
        bounds = f"{self.min_pixels} to {self.max_pixels} pixels"
        enlarged = ", the shorter at least that long before" if self.enlarge_sides else ""
        return f"{bounds}, in multiples of {self.factor} a side{enlarged}"


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task pack. `load(split, options)` gives samples; `gold(sample)` is a completion that earns full marks.

    Options are an instance of `options`, a frozen dataclass whose fields the config checks. A grade is the score of the
    first of the grader's rewards that applies. A grader other than the strict one may apply to no sample; it then has
    no metrics. The first metric is the headline.
    """

    name: str
    doc: str
    options: type[Any]
    splits: tuple[str, ...]
    load: Callable[[str, Any], Sequence[Sample]]
    rewards: Mapping[str, float]  # reward name -> weight
    graders: Mapping[str, tuple[str, ...]]
    """`strict` and, where a published grader exists, `official` -> names of rewards. Without any under `strict`, a run's
    own rewards (`task.rewards`) are the strict grader, without those that read no gold answer (`no_grader`)."""
    gold: Callable[[Sample], str | Sequence[str]]
    """Sample -> a completion with full marks; with `env`, a sequence of texts, one a turn."""
    metrics: Callable[[Sequence[Record], str], Mapping[str, Metric]] | None = None
    """Records, grader -> metrics by name; None: the grader's accuracy."""
    detail: Callable[[Record], Detail | None] | None = None
    """Record -> the table of an evaluation that it is part of; None: of none."""
    extract: Callable[[str], str | None] | None = None
    """Completion -> its answer; None: the text of the answer tag."""
    env: Callable[[Sample], Env] | None = None
    """Sample -> its environment; None: a single turn."""
    env_scores: tuple[str, ...] = ()
    """The scores that every episode's environment returns; graders may name them."""
    generate: Callable[[str, int, int, Path, Any], Iterator[str]] | None = None
    """Split, count, seed, folder, options -> writes the data, yielding a line for each part that it wrote."""
    resize: Callable[[Any], Resize | None] | None = None
    """Options -> the resizing that its answers assume of the policy; None: they assume none."""
    configure: Callable[[Task, Any], Task] | None = None
    """This task, options -> the task as they make it, such as with the rewards of the kind of answers that they name; its name, options,
    splits, `load` and `env` stay. None: the options change no field. Raises ConfigError or DataError."""
    complete: Callable[[Any], RecordCompleter | None] | None = None
    """Options -> the completer of records; None: records are complete as they are."""
