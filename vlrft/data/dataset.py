"""A pack's `load`: rows from wherever they are, made into samples when they are asked for."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, overload, runtime_checkable

from vlrft.data.prepared import PreparedFolder
from vlrft.data.row import Defect, Row
from vlrft.data.source import Source, open_source
from vlrft.schema import DataError, Sample
from vlrft.vision.images import open_image


@runtime_checkable
class HasData(Protocol):
    """What the options of a pack with data have at least."""

    @property
    def data(self) -> str | None: ...


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Where a pack's rows come from, and what they become.

    `read` yields the rows of a split in the data set's own order, and a defect for each that cannot be used; `sample`
    makes the question of a row, without its images. `homes` says where a split is when the options name no `data`,
    or how the options tell. `chosen`: of the rows of a prepared split those that the options ask for; all unless given.
    """

    read: Callable[[Source, str, Any], Iterable[Row | Defect]]
    sample: Callable[[Row, Any], Sample]
    homes: Mapping[str, str] | Callable[[Any], Mapping[str, str]]
    chosen: Callable[[Iterable[Row], str, Any], Iterable[Row]] | None = None

    def __call__(self, split: str, options: HasData) -> Samples:
        """The split's samples. Raises DataError for rows that cannot be used, unless the data set's own rules leave
        them out (those are counted on stderr); `vlrft data prepare` lists each and leaves it out for good."""
        source = self.source(split, options)
        rows: list[Row] = []
        bad: list[Defect] = []
        left_out: Counter[str] = Counter()  # a data set may repeat each of its rows a hundred times
        for found in self.rows(source, split, options):
            if isinstance(found, Row):
                rows.append(found)
            elif found.intended:
                left_out[found.reason] += 1
            else:
                bad.append(found)
        if bad:
            raise DataError(
                f"{source.label}: {len(bad)} of {len(rows) + len(bad) + left_out.total()} rows of the {split} split cannot be used, "
                f"the first is {bad[0].id} ({bad[0].reason}{': ' + bad[0].detail if bad[0].detail else ''}); "
                "vlrft data prepare lists them and leaves them out"
            )
        for reason, count in left_out.items():
            print(f"{source.label}: {split}: {count} rows left out: {reason}", file=sys.stderr)
        return Samples(rows, self.sample, options)

    def source(self, split: str, options: Any) -> Source:
        homes = self.homes(options) if callable(self.homes) else self.homes
        if options.data is None and split not in homes:
            raise DataError(
                f"the {split} split has no home on the hub; give its place with data=PATH"
            )
        return open_source(options.data or homes[split])

    def rows(self, source: Source, split: str, options: Any) -> Iterator[Row | Defect]:
        """The rows of a prepared folder, or of the raw form."""
        prepared = PreparedFolder.at(source)
        if prepared is None:
            yield from self.read(source, split, options)
        elif self.chosen is None:
            yield from prepared.rows(split)
        else:
            yield from self.chosen(prepared.rows(split), split, options)


class Samples(Sequence[Sample]):
    """Samples made of rows when they are asked for: an image is held by whoever asked, and by nobody else."""

    def __init__(
        self, rows: Sequence[Row], make: Callable[[Row, Any], Sample], options: Any
    ) -> None:
        self.rows, self.make, self.options = rows, make, options

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> Samples: ...
    def __getitem__(self, index: int | slice) -> Sample | Samples:
        if isinstance(index, slice):
            return Samples(self.rows[index], self.make, self.options)
        row = self.rows[index]
        images = tuple(open_image(p.read(), f"sample {row.id}: {p.name}") for p in row.pictures)
        return replace(self.make(row, self.options), images=images)

    def without_images(self) -> Iterator[Sample]:
        """Each sample as graders need it: no picture is opened, so none has to be there."""
        for row in self.rows:
            yield self.make(row, self.options)
