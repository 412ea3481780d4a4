"""The limits on prompts, alike for all engines."""

from __future__ import annotations

from vlrft.rollout.engines.types import Limits, Request
from vlrft.schema import DataError


def check_prompt(request: Request, limits: Limits) -> None:
    """Raises DataError, naming the request, for a prompt of more tokens or more images than the limits."""
    limit, images = limits.max_prompt_tokens, request.prompt.image_count
    if limits.max_images is not None and images > limits.max_images:
        raise DataError(
            f"{request.id}: the prompt has {images} images, more than rollout.max_images={limits.max_images}; raise it, or "
            "leave the row out"
        )
    length = len(request.prompt.ids)
    if limit is not None and length > limit:
        image_tokens = sum(image.tokens for image in request.prompt.images)
        raise DataError(
            f"{request.id}: the prompt has {length} tokens ({image_tokens} of images), more than "
            f"rollout.max_prompt_tokens={limit}; raise it, or lower policy.max_pixels"
        )
