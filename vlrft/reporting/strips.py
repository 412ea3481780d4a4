"""A video as one picture: a strip of its frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

    from vlrft.schema import Frames

FRAMES = 8  # of a strip
HEIGHT = 96  # pixels of a strip, at most


def draw_strip(video: Frames) -> PilImage:
    """At most FRAMES frames side by side. Each shows an equal share of the video's time: it is the frame on screen in
    its middle, so that the width of the strip is an axis of time."""
    count = min(FRAMES, len(video))
    seconds = (np.arange(count) + 0.5) * video.source_seconds / count
    shown = np.searchsorted(np.asarray(video.seconds), seconds, side="right") - 1
    width, height = video.size
    scale = min(1.0, HEIGHT / height)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    strip = Image.new("RGB", (count * size[0], size[1]))
    for k, index in enumerate(np.maximum(shown, 0)):
        strip.paste(Image.fromarray(video.pictures[index]).resize(size), (k * size[0], 0))
    return strip
