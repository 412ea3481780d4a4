"""Messages in Qwen's own form, given in Python, with their images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlrft.data.download import WEB, download
from vlrft.data.picture_cells import FILE_URL, PictureFinder
from vlrft.data.pictures import open_picture
from vlrft.data.source import Folder
from vlrft.schema import DataError, Message
from vlrft.vision.images import open_image, upright_rgb
from vlrft.vision.qwen_messages import QwenImage, read_messages, resize_image

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage


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
