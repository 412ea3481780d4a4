"""The container of a video file by its first bytes, and whether the file ends before its container does."""

from __future__ import annotations

from typing import BinaryIO

from vlrft.vision.limits import VIDEO_FORMATS
from vlrft.vision.picture_files import recognise

ALLOWED = f"{', '.join(VIDEO_FORMATS[:-1])} or {VIDEO_FORMATS[-1]}"
MATROSKA = b"\x1a\x45\xdf\xa3"  # also WEBM
SEGMENT = b"\x18\x53\x80\x67"  # the element of a Matroska file that has everything
FIRST_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot")  # of MP4 and MOV
PICTURES = (b"avi", b"hei", b"hev", b"mif", b"msf")  # begin the brands of pictures in such boxes
MAX_BOXES = 100_000  # a fragmented MP4 has two boxes a fragment; beyond, its end is not looked for


def find_format(start: bytes) -> str:
    """FFmpeg's name of the demuxer for a file with these first 16 bytes or more.

    Raises ValueError for a file that is empty or of another kind.
    """
    if not start:
        raise ValueError("it is empty")
    if start.startswith(MATROSKA):
        return "matroska"
    if start[:4] == b"RIFF" and start[8:12] == b"AVI ":
        return "avi"
    if start[4:8] in FIRST_BOXES and not (start[4:8] == b"ftyp" and start[8:11] in PICTURES):
        return "mov"
    name = recognise(start)
    raise ValueError(f"not a {ALLOWED} video{f', it is {name}' if name else ''}")


def missing_bytes(file: BinaryIO, container: str, size: int) -> int:
    """How many bytes a file of `size` bytes lacks by its own account; 0 where none, or where it does not state its length."""
    return max(_END[container](file, size) - size, 0)


def _boxes_end(file: BinaryIO, size: int) -> int:
    """End of the last box of an MP4: each begins with its length in four bytes; 1: it has sixteen; 0: up to the end."""
    place = 0
    for _ in range(MAX_BOXES):
        file.seek(place)
        head = file.read(16)
        if len(head) < 8:
            return place + 8 if head else place
        length = int.from_bytes(head[:4], "big")
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if length < 8:
            return size
        place += length
    return size


def _riff_end(file: BinaryIO, size: int) -> int:
    file.seek(4)
    length = int.from_bytes(file.read(4), "little")
    return length + 8 if length else size


def _matroska_end(file: BinaryIO, size: int) -> int:
    """End of the segment; a stream that was recorded live does not state it."""
    file.seek(0)
    head = file.read(4096)
    place, header = _vint(head, 4)
    place += header
    if head[place : place + 4] != SEGMENT:
        return size
    start, length = _vint(head, place + 4)
    unknown = (1 << 7 * (start - place - 4)) - 1
    return size if length == unknown else start + length


def _vint(data: bytes, place: int) -> tuple[int, int]:
    """Where Matroska's number of variable length at this place ends, and the number: as many bytes as its first byte has
    zero bits in front, and one."""
    first = data[place] if place < len(data) else 0
    width = 9 - first.bit_length()
    number = int.from_bytes(data[place : place + width], "big")
    return place + width, number & ((1 << 7 * width) - 1)


_END = {"mov": _boxes_end, "avi": _riff_end, "matroska": _matroska_end}
