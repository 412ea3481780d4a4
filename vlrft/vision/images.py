"""Images in the one form that vlrft works with: upright by their EXIF tag, transparency on white, RGB."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from PIL import Image, ImageOps

from vlrft.schema import DataError
from vlrft.vision.picture_files import ALLOWED, OWN_NAMES, check_size, open_header

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

ORIENTATION = 0x0112  # EXIF tag
SIDEWAYS = (5, 6, 7, 8)  # its values that swap width and height
LOCKS = tuple(
    Lock() for _ in range(64)
)  # an image's file is read under one of them, by one thread at a time


def open_image(content: bytes, name: str) -> PilImage:
    """Decodes an image of an allowed format (PNG, JPEG, …) within the limits of `vlrft.vision.limits`.

    Raises DataError with `name` for any other, and when it cannot be decoded completely.
    """
    try:
        image = open_header(content)
    except Exception as e:  # decoders raise OSError, SyntaxError, struct.error, …
        raise DataError(f"{name} cannot be read: {_reason(e)}") from None
    return upright_rgb(image, name)


def open_size(content: bytes, name: str) -> tuple[int, int]:
    """Width and height of the upright image, from its header. Raises DataError with `name` as `open_image` does."""
    try:
        image = open_header(content)
        turned = image.getexif().get(ORIENTATION) in SIDEWAYS
    except Exception as e:
        raise DataError(f"{name} cannot be read: {_reason(e)}") from None
    return (image.height, image.width) if turned else image.size


def upright_rgb(image: PilImage, where: str = "image") -> PilImage:
    """The image in RGB as a viewer shows it: turned by its EXIF tag, transparency on white. Raises DataError with `where`."""
    try:
        check_size(image)
        if image.format not in (None, *OWN_NAMES) and getattr(
            image, "tile", None
        ):  # not decoded yet
            raise ValueError(f"not a {ALLOWED} image, it is {image.format}")
        with LOCKS[id(image) % len(LOCKS)]:
            image.load()
        return _on_white(ImageOps.exif_transpose(image))
    except Exception as e:
        name = getattr(image, "filename", "")
        raise DataError(
            f"{where}{f' ({name})' if name else ''} cannot be read: {_reason(e)}"
        ) from None


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0] or type(error).__name__


def _on_white(image: PilImage) -> PilImage:
    if image.mode == "RGB":
        return image
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        coloured = image.convert("RGBA")
        image = Image.new("RGBA", image.size, "white")
        image.alpha_composite(coloured)
    if image.mode.startswith("I;16"):  # `convert` would clip it to white
        image = image.point(lambda shade: shade / 256).convert("L")
    return image.convert("RGB")
