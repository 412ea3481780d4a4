"""Decoding a video file by PyAV (the extra `video`), which is imported when a video is decoded.

All frames are decoded in their order, and the chosen ones kept at the size at which they are seen: memory is bounded by the
rule, whatever the length of the video. The file is read by Python, by the demuxer of its own container: FFmpeg opens no
file and no address that the file names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import SEEK_END
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from PIL import Image

from vlrft.schema import DataError, Frames
from vlrft.schema.short_message import first_line
from vlrft.vision.limits import (
    MAX_VIDEO_FRAME_PIXELS,
    MAX_VIDEO_FRAMES,
    MAX_VIDEO_PIXELS,
    MAX_VIDEO_SECONDS,
)
from vlrft.vision.video.containers import find_format, missing_bytes
from vlrft.vision.video.timeline import Timeline, frame_rate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vlrft.vision.video.frames import FrameRule


def read_video(file: BinaryIO, rule: FrameRule, name: str) -> Frames:
    """The frames of a video that `rule` chooses, upright, in RGB, at its size. `file`: open for reading, seekable.

    Raises DataError in one line, with `name` in front, for a file that is no video, is empty, truncated or damaged, has less
    than two frames, begins between key frames or exceeds `vlrft.vision.limits`; and without PyAV.
    """
    av = _import_av(name)
    with _refusing(name), _opened(av, file) as opened:
        stream = _video_stream(av, opened)
        line = _scan(opened, stream)
        indices, seconds = line.choose(rule)
        opened.seek(0)
        pictures = _resize(_decode(opened, stream, line, line.ticks[indices]), len(indices), rule)
        return Frames(
            pictures=pictures,
            indices=indices,
            seconds=seconds,
            source_fps=line.fps,
            source_seconds=line.seconds,
        )


def measure_video(file: BinaryIO, name: str) -> Timeline:
    """The times of a video's frames, none of which is decoded. Raises as `read_video` does, but for damage inside of frames."""
    av = _import_av(name)
    with _refusing(name), _opened(av, file) as opened:
        return _scan(opened, _video_stream(av, opened))


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except OSError as e:
        raise DataError(f"{name} cannot be read: {e.strerror or first_line(e)}") from None
    except (ValueError, ArithmeticError, EOFError, LookupError, RuntimeError) as e:
        raise DataError(f"{name} cannot be read: {first_line(e) or type(e).__name__}") from None


@contextmanager
def _opened(av: Any, file: BinaryIO) -> Iterator[Any]:
    size = file.seek(0, SEEK_END)
    file.seek(0)
    container = find_format(file.read(16))
    lacking = missing_bytes(file, container, size)
    if lacking:
        raise ValueError(
            f"it is truncated, {lacking:,} of its {size + lacking:,} bytes are missing"
        )
    file.seek(0)
    try:
        with av.open(file, format=container, metadata_errors="ignore") as opened:
            yield opened
    except av.error.EOFError:
        raise ValueError("it has no frames, or ends before the first") from None
    except av.error.FFmpegError as e:  # some of them are OSErrors or ValueErrors, too
        raise ValueError(f"it is damaged ({e.strerror or first_line(e)})") from None


def _import_av(name: str) -> Any:
    try:
        import av
    except ImportError:
        raise DataError(f"{name}: videos need PyAV: pip install 'vlrft[video]'") from None
    return av


def _video_stream(av: Any, opened: Any) -> Any:
    """The first stream of pictures that is no cover. Raises ValueError where there is none, and for one out of the
    limits."""
    cover = av.stream.Disposition.attached_pic
    streams = [s for s in opened.streams.video if not s.disposition & cover]
    if not streams:
        raise ValueError("it has no stream of pictures")
    stream = streams[0]
    context = stream.codec_context
    if context is None:
        raise ValueError("its codec is not known")
    _check_limits(stream.frames, context.width * context.height)
    length = _seconds(opened, stream)
    if length > MAX_VIDEO_SECONDS:
        raise ValueError(_too_long(length))
    # Of a stream that grows on its way. One thread: each further one would hold frames of its own.
    context.options = {"max_pixels": str(MAX_VIDEO_FRAME_PIXELS)}
    context.thread_count = 1
    return stream


def _seconds(opened: Any, stream: Any) -> float:
    """Length by the header; 0 where it states none."""
    if stream.duration is not None and stream.time_base is not None:
        return float(stream.duration * stream.time_base)
    return float(opened.duration or 0) / 1_000_000


def _check_limits(frames: int, pixels: int) -> None:
    if pixels > MAX_VIDEO_FRAME_PIXELS:
        raise ValueError(
            f"its frames have {pixels:,} pixels, more than {MAX_VIDEO_FRAME_PIXELS:,}; scale it down"
        )
    if frames > MAX_VIDEO_FRAMES:
        raise ValueError(f"it has more than {MAX_VIDEO_FRAMES:,} frames; cut it")
    if frames * pixels > MAX_VIDEO_PIXELS:
        raise ValueError(
            f"its {frames:,} frames have {pixels:,} pixels each, together more than {MAX_VIDEO_PIXELS:,}; "
            "cut it or scale it down"
        )


def _too_long(seconds: float) -> str:
    return f"it lasts {seconds:,.0f} seconds, more than {MAX_VIDEO_SECONDS:,}; cut it"


def _scan(opened: Any, stream: Any) -> Timeline:
    """The times of all frames, from the packets, which are not decoded.

    Raises ValueError for less than two frames, for more than the limits allow, and for a packet that is cut.
    """
    times: list[int] = []
    stated = True
    for packet in islice(_packets(opened, stream), MAX_VIDEO_FRAMES + 1):
        if packet.is_corrupt:
            raise ValueError(f"it is truncated or damaged after {len(times):,} frames")
        time = packet.dts if packet.pts is None else packet.pts
        if time is None:
            raise ValueError("its frames have no times")
        stated = stated and packet.pts is not None
        times.append(time)
    _check_limits(len(times), stream.codec_context.width * stream.codec_context.height)
    ticks = np.unique(np.array(times, np.int64))
    if len(ticks) < 2:
        raise ValueError(f"it has {'one frame' if len(ticks) else 'no frames'}; two are needed")
    start = int(ticks[0]) if stated else None
    ticks -= ticks[0]
    tick = float(stream.time_base)
    if ticks[-1] * tick > MAX_VIDEO_SECONDS:
        raise ValueError(_too_long(ticks[-1] * tick))
    return Timeline(
        ticks=ticks,
        start=start,
        tick=tick,
        fps=frame_rate(ticks, tick, stream.average_rate),
        size=(stream.codec_context.width, stream.codec_context.height),
    )


def _packets(opened: Any, stream: Any) -> Iterator[Any]:
    """All but the empty one that ends a stream for the decoder, and those that are decoded but not shown: an edit list
    cuts them away."""
    return (p for p in opened.demux(stream) if p.size and not p.is_discard)


def _decode(opened: Any, stream: Any, line: Timeline, wanted: NDArray[np.int64]) -> Iterator[Any]:
    """The frame on screen at each of the wanted ticks. Raises ValueError where those at the start or the end of the
    timeline cannot be decoded: their times would be those of other frames."""
    targets = iter(wanted.tolist())
    target = next(targets, None)
    start, last = line.start, 0
    shown: Any = None
    for frame in _frames(opened, stream):
        if frame.pts is None:
            raise ValueError("its frames have no times")
        start = frame.pts if start is None else start
        now = frame.pts - start
        if shown is None and now > 0:
            raise ValueError(
                f"its first {now * line.tick:.2f} seconds cannot be decoded, it was cut between key frames; encode it again"
            )
        while shown is not None and target is not None and now > target:
            yield shown
            target = next(targets, None)
        if target is None:
            return
        shown, last = frame, max(last, now)
    if shown is None:
        raise ValueError("it has no frames that can be decoded")
    while target is not None:
        # MPEG-4 has packets that say "as before", of which no frame comes
        if target > last and line.start is not None and stream.codec_context.name != "mpeg4":
            raise ValueError(
                f"it cannot be decoded after {last * line.tick:.2f} of {line.seconds:.2f} seconds; encode it again"
            )
        yield shown
        target = next(targets, None)


def _frames(opened: Any, stream: Any) -> Iterator[Any]:
    for frame in opened.decode(stream):
        if frame.width * frame.height > MAX_VIDEO_FRAME_PIXELS:
            raise ValueError(f"a frame has {frame.width} x {frame.height} pixels; scale it down")
        yield frame


def _resize(shown: Iterator[Any], count: int, rule: FrameRule) -> NDArray[np.uint8]:
    pictures: NDArray[np.uint8] | None = None
    for k, frame in enumerate(shown):
        if frame.is_corrupt:
            raise ValueError(f"its frame at {float(frame.time or 0):.2f} seconds is damaged")
        picture = np.rot90(frame.to_ndarray(format="rgb24"), round(frame.rotation / 90))
        height, width = picture.shape[:2]
        if pictures is None:
            side, other = rule.size(width, height, count)
            pictures = np.empty((count, other, side, 3), np.uint8)
        size = (pictures.shape[2], pictures.shape[1])
        image = Image.fromarray(picture)
        if image.size != size:
            image = image.resize(size, Image.Resampling.BICUBIC)
        pictures[k] = np.asarray(image)
    assert pictures is not None  # the rule chooses two frames or more
    return pictures
