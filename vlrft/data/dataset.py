"""A pack's `load`: reads rows from a source and makes samples of them on access."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

from vlrft.data.hub import PLACE
from vlrft.data.layouts import Layouts, describe_files
from vlrft.data.prepared import PreparedFolder
from vlrft.data.row import Defect, Row, find_text_problem
from vlrft.data.row_samples import RowSamples
from vlrft.data.source import Hub, Source, notes_of, open_source
from vlrft.data.synthetic import Synthetic
from vlrft.schema import DataError, Sample
from vlrft.schema.errors import MissingSplit, NoRowsError, VlrftError
from vlrft.schema.pluralize import pluralize
from vlrft.schema.short_message import short_message
from vlrft.vision.video.frames import FrameRule

OnBad = Literal["error", "skip"]


@runtime_checkable
class DataOptions(Protocol):
    """The least that the options of a pack with data have."""

    @property
    def data(self) -> str | None: ...


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """The source of a pack's rows, and the samples they become.

    `read` yields the rows of a split in the dataset's own order, and a defect for each that cannot be used: a function, or
    the `Layouts` of a data set that is published in several forms. `sample` makes the sample of a row, without its images. `sources`: split -> where its rows are if the options set no `data`, or a
    function of the options that returns this mapping. `select`: chooses the rows of a prepared split that the options ask
    for; all unless given.
    """

    read: Callable[[Source, str, Any], Iterable[Row | Defect]]
    sample: Callable[[Row, Any], Sample]
    sources: Mapping[str, str] | Callable[[Any], Mapping[str, str]]
    select: Callable[[Iterable[Row], str, Any], Iterable[Row]] | None = None
    describe: Callable[[Source, str, Any], Sequence[str]] | None = None
    """Lines on what is taken from the raw data of a split, and why, for `vlrft data show`."""
    frames: Callable[[Any], FrameRule] | None = None
    """Options -> which frames of a row's videos a sample has; of rows with videos only."""
    synthetic: Synthetic | None = None
    """Makes rows in the published form, for `vlrft data prepare --synthetic`."""

    def __call__(
        self, split: str, options: DataOptions, *, on_bad: OnBad = "error", task: str | None = None
    ) -> RowSamples:
        """The split's samples. Raises DataError for a folder that was prepared for another task than `task`, if that is given, and
        for rows that cannot be used, unless `on_bad` is skip: then the samples list them as `left_out`. Rows that the dataset's
        own rules leave out are counted on stderr; `vlrft data prepare` lists all defects and leaves them out for good."""
        source = self.source(split, options)
        prepared = PreparedFolder.at(source)
        rows: list[Row] = []
        defects: list[Defect] = []
        left_out: Counter[str] = Counter()  # a dataset may repeat each of its rows a hundred times
        for item in self.rows(source, split, options, task):
            if isinstance(item, Row):
                problem = find_text_problem(item)
                if not problem:
                    rows.append(item)
                    continue
                item = Defect.of(item.id, problem)
            if item.intended:
                left_out[item.reason] += 1
            else:
                defects.append(item)
        if defects and (on_bad == "error" or not rows):
            total = len(rows) + len(defects) + left_out.total()
            raise DataError(
                f"{source.label}: {len(defects)} of {total} rows of the {split} split cannot be used, "
                f"the first is {defects[0]}; vlrft data prepare lists them and leaves them out"
                + ("; task.on_bad=skip trains without them" if rows else ""),
                defects=[str(defect) for defect in defects],
            )
        if not rows and prepared is None:
            raise NoRowsError(
                f"{source.label}: no row of the {split} split; {self.explain(source, split, options)}"
            )
        for reason, count in left_out.items():
            print(
                f"{source.label}: {split}: {pluralize(count, 'row')} left out: {reason}",
                file=sys.stderr,
            )
        return RowSamples(
            rows,
            self.sample,
            options,
            tuple(dict.fromkeys(notes_of(source))),
            left_out=defects,
            prepared=prepared is not None,
            frames=self.frame_rule(options),
        )

    def frame_rule(self, options: Any) -> FrameRule:
        """The frames of a row's videos that a sample has."""
        return FrameRule() if self.frames is None else self.frames(options)

    def source(self, split: str, options: Any) -> Source:
        sources = self.places(options)
        if options.data is None and split not in sources:
            raise MissingSplit(
                f"the {split} split is not on the hub; give its place with {PLACE}{self._forms(', in one of these forms: ', split, options)}"
            )
        return open_source(options.data or sources[split], unreadable=[])

    def places(self, options: Any) -> Mapping[str, str]:
        """Split -> where its rows are if the options set no `data`."""
        return self.sources(options) if callable(self.sources) else self.sources

    def _forms(self, before: str, split: str, options: Any) -> str:
        """The names of the split's layouts after a text; empty for a pack without any."""
        return (
            f"{before}{self.read.forms(split, options)}" if isinstance(self.read, Layouts) else ""
        )

    def understood(self, split: str, options: Any) -> Sequence[str]:
        """A line for each thing that is taken from the raw data of a split, with the reason; () for prepared data, and where the pack says
        nothing."""
        source = self.source(split, options)
        if self.describe is None or PreparedFolder.at(source) is not None:
            return ()
        return self.describe(source, split, options)

    def explain(self, source: Source, split: str, options: Any) -> str:
        """The names that were looked for and those that are there, for the message of a split of which no row can be used."""
        if isinstance(self.read, Layouts):
            return self.read.explain(source, split, options)
        return f"found {describe_files(source)}"

    def rows(
        self, source: Source, split: str, options: Any, task: str | None = None
    ) -> Iterator[Row | Defect]:
        """The rows of a prepared folder, or of the raw form, with a defect for each row of a table that could not be read.

        Raises DataError for a folder that was prepared for another task than `task`, if that is given, and where `read` raises, which
        says after which row."""
        prepared = PreparedFolder.at(source)
        if prepared is not None and task is not None:
            prepared.refuse_other_task(task)
        read: Callable[[], Iterable[Row | Defect]]
        if prepared is None:
            read = partial(self.read, source, split, options)
        elif self.select is None:
            read = partial(prepared.rows, split)
        else:
            read = partial(self.select, prepared.rows(split), split, options)
        unreadable: list[Defect] | None = getattr(source, "unreadable", None)
        try:
            for item in _guard_rows(read, f"{source.label}: reading the {split} split failed"):
                if unreadable:
                    yield from unreadable
                    unreadable.clear()
                if item is not None:
                    yield item
        except MissingSplit as e:
            if not isinstance(source, Hub):  # others name their files and the layouts
                raise
            raise MissingSplit(f"{e}{self._forms('; looked for ', split, options)}") from e


def _guard_rows(
    read: Callable[[], Iterable[Row | Defect]], problem: str
) -> Iterator[Row | Defect | None]:
    """The rows, and None at their end. Raises DataError, with `problem`, for whatever a pack's code raises between them."""
    last = ""
    try:
        for item in read():
            yield item
            last = f" after {item.id}"
    except VlrftError:
        raise
    except Exception as e:
        raise DataError(f"{problem}{last} ({short_message(e)})") from e
    yield None
