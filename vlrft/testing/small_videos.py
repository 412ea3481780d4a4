"""Small video files, made by PyAV when a test asks for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEP = 8  # of a shade from one frame of `shades` to the next, more than what encoding changes


def shades(count: int, width: int = 32, height: int = 32) -> NDArray[np.uint8]:
    """Grey frames [count, height, width, 3], each brighter than the one before, up to 32 of them."""
    frame = np.arange(count, dtype=np.uint8) * STEP
    return np.broadcast_to(frame[:, None, None, None], (count, height, width, 3))


def write_video(
    path: Path,
    pictures: NDArray[np.uint8],  # [T, height, width, 3]
    *,
    fps: int = 8,
    times: Sequence[int] | None = None,
    rotation: int = 0,
    codec: str = "mpeg4",
    options: Mapping[str, str] | None = None,
) -> Path:
    """Encodes the pictures into the container that the file's name states, without further decoders than FFmpeg's own.

    `times`: when each is shown, in units of 1 / fps seconds; one after the other unless given. `options`: the container's.
    """
    import av

    with av.open(str(path), "w", options=dict(options or {})) as out:
        stream: Any = out.add_stream(codec, rate=fps)
        stream.height, stream.width = pictures.shape[1:3]
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.codec_context.time_base = Fraction(1, fps)
        if rotation:
            stream.set_display_rotation(rotation)
        out.start_encoding()
        for k, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts = k if times is None else times[k]
            frame.time_base = Fraction(1, fps)
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return path
