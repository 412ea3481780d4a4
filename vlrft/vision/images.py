"""Images in the one form that vlrft works with: upright by their EXIF tag, transparency on white, RGB."""

from __future__ import annotations

import io
from threading import Lock
from typing import TYPE_CHECKING

from PIL import Image, ImageOps

from vlrft.schema import DataError

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

LOCKS = tuple(
    Lock() for _ in range(64)
)  # an image's file is read under one of them, by one thread at a time
MAX_PIXELS = 100_000_000  # a larger image is probably a decompression bomb


def open_image(content: bytes, name: str) -> PilImage:
    """Decodes an image (PNG, JPEG, …). Raises DataError with `name` when it cannot be decoded completely."""
    try:
        image = Image.open(io.BytesIO(content))
    except (
        Exception
    ) as e:  # UnidentifiedImageError, DecompressionBombError, and others of Pillow's plugins
        raise DataError(f"{name} cannot be read: not an image ({type(e).__name__})") from None
    return upright_rgb(image, name)


def upright_rgb(image: PilImage, where: str = "image") -> PilImage:
    """The image in RGB as a viewer shows it: turned by its EXIF tag, transparency on white. Raises DataError with `where`."""
    try:
        if 0 in image.size:
            raise ValueError(f"it has {image.width} x {image.height} pixels")
        if image.width * image.height > MAX_PIXELS:
            raise ValueError(f"it has more than {MAX_PIXELS:,} pixels, scale it down")
        with LOCKS[id(image) % len(LOCKS)]:
            image.load()
        return _on_white(ImageOps.exif_transpose(image))
    except Exception as e:  # decoders raise OSError, SyntaxError, struct.error, …
        name = getattr(image, "filename", "")
        why = str(e) or type(e).__name__
        raise DataError(f"{where}{f' ({name})' if name else ''} cannot be read: {why}") from None


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
