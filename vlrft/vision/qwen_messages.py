"""Messages in Qwen's own form, as the examples of Qwen-VL's model cards and qwen-vl-utils have them.

    [{"role": "user", "content": [
        {"type": "image", "image": "file:///data/1.jpg", "max_pixels": 401408},
        {"type": "text", "text": "Which bird is this?"}]}]

An image is a path, a `file://` or `https://` URL, a data URL (`data:image;base64,…`) or a PIL image. Its part may state the
size at which a model sees it: `min_pixels` and `max_pixels`, or `resized_height` and `resized_width`; qwen-vl-utils resizes it.
An image whose part states no size is left to the policy's image processor, which also applies its own bounds to the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast, get_args

from vlrft.schema import IMAGE, DataError, Message
from vlrft.schema.sample import Role, Slot
from vlrft.schema.short_message import first_line
from vlrft.vision.limits import MAX_PIXELS

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

BOUNDS = ("min_pixels", "max_pixels")
SIDES = ("resized_height", "resized_width")
PATCH = 14  # side of a patch of Qwen2-VL and Qwen2.5-VL in pixels
_ROLES = tuple(role for role in get_args(Role) if role != "plain")


@dataclass(frozen=True, kw_only=True)
class QwenImage:
    """An image of a message: what names or holds it, and the size that its part states."""

    value: Any
    sizes: Mapping[str, int]
    """`BOUNDS` or `SIDES`, those that are stated."""


def is_image_part(part: Any) -> bool:
    """Whether a part of a message's content is an image in Qwen's form or in OpenAI's."""
    return isinstance(part, Mapping) and _value(part) is not None


def _value(part: Mapping[str, Any]) -> Any:
    value = part.get("image")
    return (
        part.get("image_url") if value is None else value
    )  # rows of tables have None for missing keys


def read_image_part(part: Mapping[str, Any], where: str) -> QwenImage:
    """The image of a part. Raises DataError, with `where` in front, for a part without one and for sizes that contradict."""
    value = _value(part)
    if isinstance(value, Mapping) and "url" in value:  # OpenAI's {"image_url": {"url": …}}
        value = value["url"]
    if value is None or value == "":
        raise DataError(f"{where}: a part of type image without an image")
    sizes = {name: part[name] for name in (*BOUNDS, *SIDES) if part.get(name) is not None}
    for name, size in sizes.items():
        if not isinstance(size, int) or not 0 < size <= MAX_PIXELS:
            raise DataError(
                f"{where}: {name} is {size!r}; expected a whole number of 1 to {MAX_PIXELS:,}"
            )
    if len(sizes.keys() & set(SIDES)) == 1:
        raise DataError(f"{where}: {next(iter(sizes.keys() & set(SIDES)))} without the other side")
    if len(sizes) > 2 and SIDES[0] in sizes:
        raise DataError(
            f"{where}: {' and '.join(SIDES)} beside {' or '.join(BOUNDS)}; give one pair"
        )
    if sizes.get("min_pixels", 0) > sizes.get("max_pixels", MAX_PIXELS):
        raise DataError(f"{where}: min_pixels {sizes['min_pixels']}, more than max_pixels")
    return QwenImage(value=value, sizes=sizes)


def read_messages(
    messages: Sequence[Mapping[str, Any]], where: str = "messages"
) -> tuple[tuple[Message, ...], tuple[QwenImage, ...]]:
    """The messages with an `IMAGE` at the place of each image, and the images in their order.

    Raises DataError, with `where` and the number of the message in front, for anything but text and images.
    """
    if not isinstance(messages, list | tuple) or not messages:
        raise DataError(f"{where}: expected a list of messages, each with role and content")
    images: list[QwenImage] = []
    read: list[Message] = []
    for number, message in enumerate(messages):
        place = f"{where}, message {number}"
        role = message.get("role") if isinstance(message, Mapping) else None
        if role not in _ROLES:
            raise DataError(f"{place}: the role is {role!r}; known: {', '.join(_ROLES)}")
        content = message.get("content")
        parts = [content] if isinstance(content, str) else content
        if not isinstance(parts, list | tuple):
            raise DataError(f"{place}: its content is {type(content).__name__}, not text or parts")
        read.append(
            Message(
                role=cast(Role, role), content=tuple(_read_part(p, images, place) for p in parts)
            )
        )
    return tuple(read), tuple(images)


def _read_part(part: Any, images: list[QwenImage], place: str) -> str | Slot:
    if isinstance(part, str):
        return part
    if is_image_part(part):
        images.append(read_image_part(part, place))
        return IMAGE
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        return str(part["text"])
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    if kind == "image":
        raise DataError(f"{place}: a part of type image without an image")
    hint = "; give a video's frames as images" if kind == "video" else ""
    raise DataError(f"{place}: a part of type {kind!r}; text and image are read{hint}")


def resize_image(
    image: PilImage, sizes: Mapping[str, int], where: str, *, patch: int = PATCH
) -> PilImage:
    """The image at the size that its part states, as qwen-vl-utils resizes it; the image itself where none is stated.

    `patch`: side of the model's patches in pixels; sides become multiples of two patches. Raises DataError, with `where`
    in front, without qwen-vl-utils and where no such size exists.
    """
    if not sizes:
        return image
    from vlrft.vision.processor import prepare_torchvision

    prepare_torchvision()  # qwen_vl_utils imports torchvision
    try:
        from qwen_vl_utils import fetch_image
    except ImportError as e:
        missing = getattr(e, "name", None) or "qwen-vl-utils"
        raise DataError(
            f"{where}: resizing it needs qwen-vl-utils and torchvision: pip install {missing.replace('_', '-')}"
        ) from e
    try:
        part: dict[str, Any] = {"image": image, **sizes}
        resized: PilImage = fetch_image(part, image_patch_size=patch)
    except (AssertionError, ValueError) as e:
        raise DataError(
            f"{where}: {image.width} x {image.height} pixels cannot be resized to {dict(sizes)} ({first_line(e)})"
        ) from e
    return resized
