"""Samples of rows, made on access."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

from vlrft.data.clips import open_clips
from vlrft.data.pictures import open_picture
from vlrft.data.row import Defect, Row
from vlrft.schema import IMAGE, VIDEO, DataError, Sample
from vlrft.schema.errors import VlrftError
from vlrft.schema.sample import count_slots
from vlrft.schema.short_message import short_message
from vlrft.vision.video.frames import FrameRule


class RowSamples(Sequence[Sample]):
    """Samples made of rows on access; their images and videos are loaded each time and not kept."""

    def __init__(
        self,
        rows: Sequence[Row],
        make: Callable[[Row, Any], Sample],
        options: Any,
        notes: Sequence[str] = (),
        *,
        left_out: Sequence[Defect] = (),
        prepared: bool = False,
        frames: FrameRule | None = None,
    ) -> None:
        """`notes`: lines on what was chosen or guessed when the rows were read. `left_out`: rows that cannot be used.
        `prepared`: the rows, their pictures and videos among them, were checked by `vlrft data prepare`. `frames`: those of
        the videos that are chosen; None: as qwen-vl-utils does."""
        self.rows, self.make, self.options, self.notes = rows, make, options, notes
        self.left_out, self.prepared, self.frames = left_out, prepared, frames or FrameRule()

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> RowSamples: ...
    def __getitem__(self, index: int | slice) -> Sample | RowSamples:
        if isinstance(index, slice):
            return self._with_rows(self.rows[index], self.left_out)
        row = self.rows[index]
        images = tuple(open_picture(p, f"sample {row.id}: ") for p in row.pictures)
        videos = open_clips(row.videos, self.frames, f"sample {row.id}: ")
        return replace(self.make_sample(row), images=images, videos=videos)

    def without(self, defects: Mapping[int, Defect]) -> RowSamples:
        """The samples without those of these indices, whose defects join the rows left out."""
        rows = [row for k, row in enumerate(self.rows) if k not in defects]
        return self._with_rows(rows, [*self.left_out, *defects.values()])

    def made_by(self, make: Callable[[Row, Any], Sample]) -> RowSamples:
        """The same rows, as `make` makes samples of them."""
        return RowSamples(
            self.rows,
            make,
            self.options,
            self.notes,
            left_out=self.left_out,
            prepared=self.prepared,
            frames=self.frames,
        )

    def _with_rows(self, rows: Sequence[Row], left_out: Sequence[Defect]) -> RowSamples:
        return RowSamples(
            rows,
            self.make,
            self.options,
            self.notes,
            left_out=left_out,
            prepared=self.prepared,
            frames=self.frames,
        )

    def without_images(self) -> Iterator[Sample]:
        """The samples as graders need them: no image and no video is opened, so that none has to be present."""
        for row in self.rows:
            yield self.make_sample(row)

    def make_sample(self, row: Row) -> Sample:
        """The sample of a row, without its images. Raises DataError."""
        try:
            sample = self.make(row, self.options)
        except VlrftError:
            raise
        except Exception as e:
            raise DataError(
                f"sample {row.id}: no sample can be made of it ({short_message(e)})"
            ) from e
        if problem := find_misplaced_images(row, sample):
            raise DataError(f"sample {row.id}: {problem}; vlrft data prepare leaves such rows out")
        return replace(sample, thought=row.thought) if row.thought else sample


def find_misplaced_images(row: Row, sample: Sample) -> str:
    """How the places of images and videos in a sample's messages differ from those of its row, as a question may hold the
    mark of a place. An empty string where they agree, and for messages without places, as an environment shows images
    itself."""
    for slot, of_row in ((IMAGE, row.pictures), (VIDEO, row.videos)):
        places, kind = count_slots(sample.messages, slot), slot.value
        if places not in (0, len(of_row)):
            return (
                f"{places} places of {kind}s (<{kind}>) in its messages, but {len(of_row)} {kind}s"
            )
    return ""
