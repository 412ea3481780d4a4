"""Files and pictures of a source: named in a table's cell, read, and decoded. Whatever fails is a DataError with its place."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from vlrft.data.row import Picture
from vlrft.data.source import Source
from vlrft.data.split_rows import short_name
from vlrft.data.tables import read_limited
from vlrft.schema import DataError
from vlrft.schema.short_message import short_message
from vlrft.vision.images import open_image, open_size
from vlrft.vision.limits import MAX_BYTES
from vlrft.vision.qwen_messages import resize_image

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage


def read_file(source: Source, name: str) -> bytes:
    """The content of a file of the source. Raises DataError, which names both, for a file that cannot be read to its end or
    has more than `MAX_BYTES` bytes."""
    with source.open(name) as file:
        try:
            return read_limited(file, f"{source.label}: cannot read {short_name(name)}", MAX_BYTES)
        except DataError:
            raise
        except Exception as e:  # BadZipFile (CRC), zlib.error, EOFError, OSError, …
            raise DataError(
                f"{source.label}: cannot read {short_name(name)} ({short_message(e)})"
            ) from e


def parse_picture(cell: object, source: Source, name: str) -> Picture:
    """A table's image cell as a picture: bytes, `{"bytes", "path"}`, or the name of a file of the source.

    Raises DataError for any other cell.
    """
    if isinstance(cell, Mapping):
        content, path = cell.get("bytes"), cell.get("path")
        cell = content if content is not None else path
    if isinstance(cell, bytes):
        return Picture(name=name, read=lambda: cell, embedded=cell)
    if isinstance(cell, str) and cell:
        return Picture(name=cell, read=lambda: read_file(source, cell))
    raise DataError(f"{name}: no image (found {type(cell).__name__})")


def measure_picture(picture: Picture) -> tuple[int, int]:
    """Width and height of the upright picture, from its header. Raises DataError as `open_picture`, but not for damage after
    the header."""
    return open_size(_read(picture, ""), picture.name)


def open_picture(picture: Picture, where: str = "") -> PilImage:
    """The picture, decoded, as `vlrft.vision.open_image` gives it. Raises DataError, with `where` in front, for whatever is
    wrong with it: `picture.read` may be a pack's own."""
    return open_image(_read(picture, where), f"{where}{picture.name}")


def _read(picture: Picture, where: str) -> bytes:
    try:
        return picture.read()
    except DataError as e:
        raise DataError(f"{where}{e}") from e
    except Exception as e:
        raise DataError(
            f"{where}{short_name(picture.name)} cannot be read ({short_message(e)})"
        ) from e


def resize_picture(picture: Picture, sizes: Mapping[str, int], name: str) -> Picture:
    """The picture at the size that an image part in Qwen's form states, resized when it is read. `name`: of the row."""
    return replace(picture, read=lambda: _resized_png(picture, sizes, name)) if sizes else picture


def _resized_png(picture: Picture, sizes: Mapping[str, int], name: str) -> bytes:
    resized = resize_image(open_picture(picture), sizes, name)
    content = io.BytesIO()
    resized.save(content, "PNG", compress_level=1)  # the very pixels
    return content.getvalue()
