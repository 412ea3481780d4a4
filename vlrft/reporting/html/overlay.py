"""Marks on a picture of a page: boxes, points and segments of time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """A box over a picture, in percent of its sides."""

    kind: str  # "true" or "predicted"
    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True, kw_only=True)
class Strip:
    """A strip of a video's frames, with segments of time marked on it."""

    image: str  # a data URI
    segments: tuple[Overlay, ...]
