"""Pictures that are refused by their header: other formats, and those out of the limits."""

from __future__ import annotations

import ast
import io
import random
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import EpsImagePlugin, Image

from vlrft.schema import DataError
from vlrft.testing.small_policies import noise_image
from vlrft.vision import picture_files
from vlrft.vision.images import open_image, open_size, upright_rgb
from vlrft.vision.limits import FORMATS

ROOT = Path(__file__).parents[2]
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 50 50\n%%EndComments\n(ran) print\n%%EOF\n"


def encode(image: Image.Image, kind: str, **settings: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format=kind, **settings)
    return file.getvalue()


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The calls of Ghostscript, which is not run."""
    calls: list[object] = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *args, **_: calls.append(args))
    return calls


@pytest.mark.parametrize("kind", FORMATS)
def test_each_allowed_format_is_read(kind: str) -> None:
    image = open_image(encode(noise_image(9, 7), kind), "x")
    assert (image.size, image.mode) == ((9, 7), "RGB")
    assert open_size(encode(noise_image(9, 7), kind), "x") == (9, 7)


def test_a_postscript_file_is_refused_by_name_and_starts_no_program(programs: list[object]) -> None:
    with pytest.raises(
        DataError, match=r"1.png cannot be read: not a PNG, .* or TIFF image, it is EPS"
    ):
        open_image(EPS, "1.png")
    opened_elsewhere = Image.open(io.BytesIO(EPS))
    with pytest.raises(DataError, match=r"sample 3 cannot be read: not a PNG, .* image, it is EPS"):
        upright_rgb(opened_elsewhere, "sample 3")
    assert programs == []


@pytest.mark.parametrize("kind", ["PPM", "JPEG2000", "ICO", "PCX", "TGA", "AVIF", "PDF"])
def test_every_other_format_is_refused(kind: str) -> None:
    with pytest.raises(DataError, match=r"x cannot be read: not a PNG, JPEG, "):
        open_image(encode(noise_image(16, 16), kind), "x")


def png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG that has a header and no pixels."""
    header = (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    parts = [b"\x89PNG\r\n\x1a\n"]
    for name, data in (header, *chunks, (b"IDAT", b""), (b"IEND", b"")):
        parts.append(struct.pack(">I", len(data)) + name + data)
        parts.append(struct.pack(">I", zlib.crc32(name + data)))
    return b"".join(parts)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (png(20_000, 20_000), r"more than 100,000,000 pixels \(20000 x 20000\), scale it down"),
        (png(1_000_000, 1000), "more than 100,000,000 pixels"),
        (png(1, 201), r"too long for its width \(1 x 201 pixels\)"),
        (png(10_001, 50), r"too long for its width"),
        (png(8, 8, (b"acTL", struct.pack(">II", 1001, 0))), "more than 1,000 frames"),
        (png(8, 8, *[(b"prVt", b"")] * 6000), "more than 10,000 parts"),
    ],
    ids=["square", "wide", "tall", "long", "frames", "parts"],
)
def test_a_picture_out_of_the_limits_is_refused_before_it_is_decoded(
    content: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(image: Any) -> None:
        pytest.fail("decoded")

    monkeypatch.setattr(Image.Image, "load", load)
    for read in (open_image, open_size):
        with pytest.raises(DataError, match=f"img/1.png cannot be read: .*{why}"):
            read(content, "img/1.png")


def test_a_file_with_too_many_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_files, "MAX_BYTES", 100)
    with pytest.raises(DataError, match="more than 100 bytes"):
        open_image(bytes(101), "x")


def animation(kind: str, frames: int) -> bytes:
    first, *others = (Image.new("L", (4, 4), 50 * k) for k in range(frames))
    return encode(first, kind, save_all=True, append_images=others)


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "WEBP", "PNG"])
def test_frames_are_counted_and_the_first_is_used(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picture_files, "MAX_FRAMES", 3)
    assert open_image(animation(kind, 3), "x").getpixel((0, 0)) == (0, 0, 0)
    with pytest.raises(DataError, match="more than 3 frames"):
        open_image(animation(kind, 4), "x")


def test_a_gif_with_a_hundred_thousand_frames_is_counted_to_the_limit_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = b",\0\0\0\0\1\0\1\0\0\2\2D\1\0"
    content = b"GIF89a\1\0\1\0\0\0\0" + frame * 100_000 + b";"
    steps: list[None] = []
    walk = picture_files._gif_frames

    def counted(content: bytes) -> Iterator[None]:
        for step in walk(content):
            steps.append(step)
            yield step

    monkeypatch.setattr(picture_files, "_gif_frames", counted)
    with pytest.raises(DataError, match="more than 1,000 frames"):
        open_image(content, "x")
    assert len(steps) == 1001


def test_a_tiff_whose_pages_form_a_circle_is_refused() -> None:
    content = bytearray(encode(Image.new("L", (4, 4)), "TIFF"))
    (start,) = struct.unpack_from("<L", content, 4)
    (entries,) = struct.unpack_from("<H", content, start)
    struct.pack_into("<L", content, start + 2 + 12 * entries, start)
    with pytest.raises(DataError, match="more than 1,000 frames"):
        open_image(bytes(content), "x")


def test_a_comment_in_a_million_blocks_is_refused() -> None:
    """PIL joins the blocks one by one, which takes hours for a file of 100 MB."""
    comment = b"!\xfe" + b"\1x" * 1_000_000 + b"\0"
    with pytest.raises(DataError, match="more than 10,000 parts"):
        open_image(b"GIF89a\1\0\1\0\0\0\0" + comment + b";", "x")


def test_a_jpeg_with_thousands_of_scans_is_refused() -> None:
    content = encode(noise_image(64, 64), "JPEG", progressive=True)
    assert open_image(content, "x").size == (64, 64)
    last = content.rindex(b"\xff\xda")
    scan = content[last:-2]
    with pytest.raises(DataError, match="more than 100 scans"):
        open_image(content[:-2] + scan * 2000 + b"\xff\xd9", "x")


def test_a_large_picture_within_the_limit_gives_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """PIL warns of pictures beyond its own limit, a little below ours; a warning is an error in these tests."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 60)
    assert open_image(encode(noise_image(10, 10), "PNG"), "x").size == (10, 10)


def damage(content: bytes, draw: random.Random) -> bytes:
    """The content with a few bytes changed, left out or added, most of them near its start."""
    changed = bytearray(content)
    for _ in range(draw.choice((1, 2, 4))):
        place = draw.randrange(min(len(changed), draw.choice((32, 200, 10_000))))
        match draw.randrange(4):
            case 0:
                changed[place] ^= 1 << draw.randrange(8)
            case 1:
                changed[place : place + 4] = draw.choice((b"\xff" * 4, bytes(4), b"\0\0\xff\xff"))
            case 2:
                del changed[place : place + draw.randrange(1, 9)]
            case _:
                changed[place:place] = draw.randbytes(draw.randrange(1, 9))
    return bytes(changed)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_damaged_picture_is_read_or_refused_by_its_name(kind: str) -> None:
    draw = random.Random(kind)
    content = encode(noise_image(24, 16), kind)
    refusals: list[str] = []
    for _ in range(80):
        try:
            assert open_image(damage(content, draw), "img/1").mode == "RGB"
        except DataError as e:
            refusals.append(str(e))
    assert len(refusals) > 10
    assert all(line.startswith("img/1 cannot be read: ") for line in refusals)
    assert not any("\n" in line for line in refusals)


def test_no_file_of_the_repository_opens_pictures_by_other_means() -> None:
    readers = {"imread", "read_image", "decode_image", "imdecode", "default_loader"}
    found: list[str] = []
    for folder in ("vlrft", "rewards", "tasks", "benchmarks", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if not any(word in text for word in ("Image.open", "ImageFile", *readers)):
                continue
            for node in ast.walk(ast.parse(text)):
                if not isinstance(node, ast.Call):
                    continue
                called = ast.unparse(node.func)
                formats = any(keyword.arg == "formats" for keyword in node.keywords)
                opens = called.endswith("Image.open") and not formats
                opens |= called.split(".")[-1] in readers
                if opens or called.endswith("ImageFile.Parser"):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {called}")
    assert found == []
