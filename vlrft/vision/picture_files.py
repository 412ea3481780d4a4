"""Opening an encoded picture without decoding it: its format, and whether it is within the limits.

Only the formats of `limits.FORMATS` are opened, each by its own decoder: PIL's `open` would try every format that it knows,
of which some start programs.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from PIL import (
    BmpImagePlugin,
    GifImagePlugin,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from vlrft.vision.limits import (
    FORMATS,
    MAX_BYTES,
    MAX_FRAMES,
    MAX_HEADER_READS,
    MAX_PIXELS,
    MAX_RATIO,
    MAX_READS,
    MAX_SCANS,
)

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

ALLOWED = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF8", "GIF"),
    (b"BM", "BMP"),
    *((start, "TIFF") for start in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"II\0*", b"MM*\0")),
    # formats that are refused by name
    (b"%!PS", "EPS (PostScript)"),
    (b"\xc5\xd0\xd3\xc6", "EPS (PostScript)"),
    (b"%PDF", "PDF"),
    (b"<svg", "SVG"),
    (b"<?xml", "XML"),
    (b"8BPS", "PSD"),
    (b"\0\0\1\0", "ICO"),
    (b"\0\0\0\x0cjP  ", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
    (b"\xd7\xcd\xc6\x9a", "WMF"),
    *((b"P%d" % k, "PPM") for k in range(1, 8)),
)
DECODERS: dict[str, Callable[[io.BytesIO], Any]] = {
    "PNG": PngImagePlugin.PngImageFile,
    "JPEG": JpegImagePlugin.jpeg_factory,
    "WEBP": WebPImagePlugin.WebPImageFile,
    "GIF": GifImagePlugin.GifImageFile,
    "BMP": BmpImagePlugin.BmpImageFile,
    "TIFF": TiffImagePlugin.TiffImageFile,
}
GIF_BLOCK = re.compile(rb"[!,;]")
OWN_NAMES = (*FORMATS, "MPO", "DIB")  # PIL's, of images of these decoders


class _Content(io.BytesIO):
    """A file whose decoder may read from it only so often: one made of millions of parts would keep it busy for hours."""

    reads = 0
    limit = MAX_HEADER_READS

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        if self.reads > self.limit:
            raise OSError(f"it consists of more than {self.limit:,} parts")
        return super().read(size)


def open_header(content: bytes) -> PilImage:
    """The picture, not decoded yet. Raises ValueError for a format that is not allowed and a picture out of the limits,
    and whatever a decoder raises for a broken header."""
    if len(content) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
    name = recognise(content)
    if name not in DECODERS:
        raise ValueError(f"not a {ALLOWED} image{f', it is {name}' if name else ''}")
    file = _Content(content)
    image: PilImage = DECODERS[name](file)
    check_size(image)
    if _more_than(MAX_FRAMES, _frames(content, name, image)):
        raise ValueError(f"it has more than {MAX_FRAMES:,} frames")
    if name == "JPEG":  # the decoder has read as far as the first scan
        end = content.find(b"\xff\xd9", file.tell())
        if content.count(b"\xff\xda", file.tell(), end if end >= 0 else None) >= MAX_SCANS:
            raise ValueError(f"it has more than {MAX_SCANS} scans")
    file.limit = MAX_READS
    return image


def recognise(content: bytes) -> str:
    """The format by the first bytes; empty if they belong to none that is known."""
    start = content[:16]
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "WEBP"
    if start[4:8] == b"ftyp":
        return "AVIF" if start[8:12].startswith(b"avi") else "HEIC"
    return next((name for bytes_, name in SIGNATURES if start.startswith(bytes_)), "")


def check_size(image: PilImage) -> None:
    """Raises ValueError for an image that is empty, too large or too long."""
    short, long = sorted(image.size)
    if short <= 0:
        raise ValueError(f"it has {image.width} x {image.height} pixels")
    if short * long > MAX_PIXELS:
        raise ValueError(
            f"it has more than {MAX_PIXELS:,} pixels ({image.width} x {image.height}), scale it down"
        )
    if long > MAX_RATIO * short:
        raise ValueError(
            f"it is too long for its width ({image.width} x {image.height} pixels): the longer side may be "
            f"{MAX_RATIO} times the shorter one"
        )


def _more_than(limit: int, items: Iterator[None]) -> bool:
    return any(k >= limit for k, _ in enumerate(items))


def _frames(content: bytes, name: str, image: PilImage) -> Iterator[None]:
    """An item for each frame. PIL's `n_frames` of a GIF or TIFF would read all of them, however many there are."""
    if name == "GIF":
        return _gif_frames(content)
    if name == "TIFF":
        return _tiff_pages(content)
    return iter([None] * min(int(getattr(image, "n_frames", 1)), MAX_FRAMES + 1))


def _gif_frames(content: bytes) -> Iterator[None]:
    """Walks the blocks of a GIF: `!` begins an extension, `,` a frame, each with data in sub-blocks; `;` is the end, and
    bytes between blocks are skipped. Raises ValueError for too many sub-blocks."""
    parts = 0
    place = 13 + _palette_size(content, 10)
    while block := GIF_BLOCK.search(content, place):
        place = block.start()
        if block[0] == b";":
            return
        if block[0] == b",":
            yield None
            place += 11 + _palette_size(content, place + 9)
        else:
            place += 2
        while place < len(content) and content[place]:
            place += content[place] + 1
            parts += 1
        place += 1
        parts += 1
        if parts > MAX_READS:
            raise ValueError(f"it consists of more than {MAX_READS:,} parts")


def _palette_size(content: bytes, flags: int) -> int:
    """Bytes of the palette whose flags are at this place."""
    value = content[flags] if flags < len(content) else 0
    return 3 << ((value & 7) + 1) if value & 0x80 else 0


def _tiff_pages(content: bytes) -> Iterator[None]:
    """Follows the chain of a TIFF's directories, which may be a circle."""
    order = "<" if content[:2] == b"II" else ">"
    big = 43 in content[2:4]
    head, word, entry = (8, f"{order}Q", 20) if big else (4, f"{order}L", 12)
    count = f"{order}Q" if big else f"{order}H"
    try:
        (place,) = struct.unpack_from(word, content, head)
        while place:
            yield None
            (entries,) = struct.unpack_from(count, content, place)
            (place,) = struct.unpack_from(
                word, content, place + struct.calcsize(count) + entries * entry
            )
    except (struct.error, OverflowError):  # a chain that is cut; the decoder reads the first page
        return
