"""A kind of gold answers: how a cell is read, what a policy is asked for, and which rewards and metrics judge it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vlrft.data import Row
from vlrft.schema import Detail, Metric, Record, Sample

from .entry import BoxForm, Entry

if TYPE_CHECKING:
    from .options import Options


SHOWN = 10  # classes in a line


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts that hold for all rows, known when one of them is read."""

    options: Options
    boxes: BoxForm | None = None
    classes: tuple[str, ...] = ()
    first_choice: int | None = None

    def lines(self) -> list[str]:
        """The facts that were found, a line each, for `vlrft data show`."""
        lines: list[str] = []
        if self.boxes is not None:
            lines.append(f"boxes: {self.boxes.unit}, {self.boxes.corners}")
        if self.classes:
            more = "" if len(self.classes) <= SHOWN else " …"
            lines.append(f"classes: {len(self.classes)} ({', '.join(self.classes[:SHOWN])}{more})")
        if self.first_choice is not None:
            lines.append(f"first choice: number {self.first_choice}")
        return lines


@dataclass(frozen=True, kw_only=True)
class Gold:
    """A gold answer as the rewards read it. All fields can be written as JSON."""

    answer: Any
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, kw_only=True)
class AnswerKind:
    """An entry of the table of kinds."""

    name: str
    doc: str
    """The forms of a gold cell that are read, in a few words."""
    parse: Callable[[Any], Any]
    """A gold cell by itself, whatever the rest of its row says; raises ValueError for one that is not of this kind. A column
    fits the kind where this reads most of its cells."""
    read: Callable[[Entry, Facts], Gold]
    """The gold answer of an entry. Raises ValueError, which says what was found and what is expected."""
    rewards: Mapping[str, float]
    """Names and weights; none: the user names them."""
    strict: tuple[str, ...]
    """The rewards of the strict grader."""
    prompt: Callable[[Row], str]
    """The name of a row's template in prompts/."""
    write: Callable[[Sample], str] = lambda sample: str(sample.answer)
    """The gold answer as a policy has to write it."""
    metrics: Callable[[Sequence[Record], str], Mapping[str, Metric]] | None = None
    detail: Detail | None = None
    """The table of an evaluation that its records are part of."""
    columns: tuple[str, ...] = ()
    """Names of answer columns that only this kind has, such as bbox."""
    question: str = ""
    """The question where the table has none; empty: it must have one."""
    prepare: Callable[[Sequence[Entry], Facts, str], Facts] | None = None
    """First entries, facts, the label of the data -> the facts with what all rows of this kind need. Raises DataError where the
    options have to say it."""
    lettered: bool = False
    """Whether its rows have choices."""
    closed: bool = False
    """Whether its answers are of a closed set, which is collected from all splits unless it is given."""
    key: Callable[[str], str] = str
    """An answer of the closed set -> the form in which the rewards compare it; answers that share one are refused."""
    options: tuple[str, ...] = ()
    """Names of options that only some kinds read, this one among them."""
    boxed: bool = False
    """Whether its rewards read a `\\\\boxed{}` where there is no answer tag."""
    resized: bool = False
    """Whether its rewards read coordinates in pixels of the resized picture (`options.boxes`)."""
