"""Videos of a source: found by the name that an annotation has for them, opened, and decoded when a sample is made."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vlrft.data.picture_cells import best_match
from vlrft.data.row import Clip
from vlrft.data.source import Source
from vlrft.data.split_rows import short_name
from vlrft.schema import DataError, Frames
from vlrft.vision.limits import VIDEO_FORMATS

if TYPE_CHECKING:
    from vlrft.vision.video.frames import FrameRule
    from vlrft.vision.video.timeline import Timeline

SUFFIXES = tuple(f".{name.lower()}" for name in (*VIDEO_FORMATS, "M4V"))


@dataclass(frozen=True)
class ClipFinder:
    """Finds videos among the files of a source."""

    source: Source
    split: str
    """Of several files of a name, the one in a folder of this name is meant."""

    def find(self, name: str) -> Clip:
        """The video with this path, whose leading folders may be others, or with this id, its file's name without suffix.

        Raises DataError for one that is not there, and for a name that may be several files.
        """
        path = PurePosixPath(name)
        key = path.stem if path.suffix.lower() in SUFFIXES else path.name
        candidates = self._files.get(key, [])
        exact = [c for c in candidates if PurePosixPath(c).name == path.name]
        found = best_match(name, self.split, exact or candidates)
        if found not in candidates:
            raise DataError(
                f"video missing: no {short_name(name)} among the files of {self.source.label} ({', '.join(SUFFIXES)})"
            )
        return Clip(name=found, open=lambda: self.source.open(found), source=self.source.label)

    @cached_property
    def _files(self) -> dict[str, list[str]]:
        """Id -> the paths of its files."""
        files: dict[str, list[str]] = {}
        for name in self.source.names():
            path = PurePosixPath(name)
            if path.suffix.lower() in SUFFIXES:
                files.setdefault(path.stem, []).append(name)
        return files


def open_clips(clips: Sequence[Clip], rule: FrameRule, where: str) -> tuple[Frames, ...]:
    """The frames of videos. Raises DataError with `where` in front."""
    if not clips:
        return ()
    from vlrft.vision.video.decode import read_video

    frames: list[Frames] = []
    for clip in clips:
        with clip.open() as file:
            frames.append(read_video(file, rule, f"{where}video {clip.name}"))
    return tuple(frames)


@dataclass(frozen=True)
class ClipTimes:
    """Measures videos, each once: rows that name the same one share its timeline, or the reason why it has none."""

    _found: dict[Hashable, Timeline | DataError] = field(
        default_factory=dict[Hashable, "Timeline | DataError"], init=False
    )

    def measure(self, clip: Clip) -> Timeline:
        """As `measure_clip` does. Raises DataError."""
        found = self._found.get(clip.key)
        if found is None:
            try:
                found = measure_clip(clip)
            except DataError as e:
                found = e
            self._found[clip.key] = found
        if isinstance(found, DataError):
            raise found.with_traceback(None)
        return found


def outline_clips(clips: Sequence[Clip], rule: FrameRule, times: ClipTimes) -> tuple[Frames, ...]:
    """The frames that `open_clips` gives, before they are decoded: see `Timeline.outline`. Raises DataError."""
    frames: list[Frames] = []
    for clip in clips:
        timeline = times.measure(clip)
        try:
            frames.append(timeline.outline(rule))
        except ValueError as e:  # of the rule
            raise DataError(f"video {clip.name} cannot be read: {e}") from None
    return tuple(frames)


def measure_clip(clip: Clip) -> Timeline:
    """Times and size of a video, of which nothing is decoded. Raises DataError."""
    from vlrft.vision.video.decode import measure_video

    with clip.open() as file:
        return measure_video(file, f"video {clip.name}")
