"""Pictures of messages in Qwen's own form: those of a table's rows, and those of messages given in Python."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlrft.data.download import WEB, download
from vlrft.data.picture_cells import FILE_URL, PictureFinder
from vlrft.data.pictures import open_picture
from vlrft.data.row import Picture
from vlrft.data.source import Folder
from vlrft.schema import DataError, Message
from vlrft.vision.images import open_image, upright_rgb
from vlrft.vision.qwen_messages import QwenImage, read_image_part, read_messages, resize_image

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage


def qwen_picture(part: Mapping[str, Any], finder: PictureFinder, name: str) -> Picture:
    """The picture of an image part, `{"type": "image", "image": …, "max_pixels": …}`; where the part states a size, resized
    when it is read. Raises DataError; `name`: of the row."""
    image = read_image_part(part, name)
    picture = finder.find(image.value, name)
    if not image.sizes:
        return picture
    return Picture(name=picture.name, read=lambda: _resized_png(picture, image, name))


def _resized_png(picture: Picture, image: QwenImage, name: str) -> bytes:
    """PNG holds the very pixels."""
    resized = resize_image(open_picture(picture), image.sizes, name)
    content = io.BytesIO()
    resized.save(content, "PNG", compress_level=1)
    return content.getvalue()


def load_qwen_messages(
    messages: Sequence[Mapping[str, Any]], *, urls: bool = False
) -> tuple[tuple[Message, ...], tuple[PilImage, ...]]:
    """Messages and their images, upright and in RGB, for `Sample`, `Chat.render` and `vlrft.generate`.

    Files are read from anywhere on this machine. `urls`: download images that are URLs. Raises DataError for messages in another form and
    for images that cannot be read or exceed `vlrft.vision.limits`.
    """
    read, images = read_messages(messages)
    return read, tuple(_open(image, f"image {k}", urls=urls) for k, image in enumerate(images))


def _open(image: QwenImage, where: str, *, urls: bool) -> PilImage:
    value = image.value
    if isinstance(value, str) and value.startswith(WEB):
        if not urls:
            raise DataError(
                f"{where}: {value[:200]} is a URL; it is downloaded with urls=True alone"
            )
        picture = open_image(download(value), f"{where}, {value[:200]},")
    elif isinstance(value, Path) or (isinstance(value, str) and not value.startswith("data:")):
        path = Path(str(value).removeprefix(FILE_URL)).expanduser()
        try:
            picture = open_image(path.read_bytes(), f"{where}, {path},")
        except OSError as e:
            raise DataError(f"{where}, {path}: cannot be read ({e.strerror})") from None
    elif isinstance(value, str | bytes | Mapping):
        finder = PictureFinder(Folder(Path()), "")
        picture = open_picture(finder.find(value, where))
    elif hasattr(value, "convert"):
        picture = upright_rgb(value, where)
    else:
        raise DataError(
            f"{where}: expected a path, a data URL, bytes or a PIL image, found {type(value).__name__}"
        )
    return resize_image(picture, image.sizes, where)
