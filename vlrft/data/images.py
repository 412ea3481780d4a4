"""Encoded image -> RGB: upright by its EXIF tag, transparency on white."""

from __future__ import annotations

import io

from PIL import Image, ImageOps, UnidentifiedImageError

from vlrft.schema import DataError

MAX_PIXELS = 100_000_000  # a larger picture is more likely a bomb than a question


def open_image(content: bytes, name: str) -> Image.Image:
    """The picture as the policy is to see it. Raises DataError naming it when it cannot be read whole."""
    try:
        with Image.open(io.BytesIO(content)) as found:
            if found.width * found.height > MAX_PIXELS:
                raise DataError(
                    f"{name}: {found.width} × {found.height} pixels, more than {MAX_PIXELS:,}; scale it down"
                )
            upright = ImageOps.exif_transpose(found)
    except (
        UnidentifiedImageError,
        OSError,
        SyntaxError,
        ValueError,
        Image.DecompressionBombError,
    ) as e:
        if isinstance(e, DataError):
            raise
        raise DataError(f"{name}: not a readable image ({type(e).__name__})") from e
    if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
        layered = upright.convert("RGBA")
        white = Image.new("RGBA", layered.size, "white")
        return Image.alpha_composite(white, layered).convert("RGB")
    if upright.mode.startswith("I;16"):
        upright = upright.point(lambda v: v / 256).convert(
            "L"
        )  # what `convert` would clip to white
    return upright.convert("RGB")
