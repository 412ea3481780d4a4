"""The limit on the length of prompts, alike for all engines."""

from __future__ import annotations

from vlrft.rollout.engines.types import Request
from vlrft.schema import DataError


def check_prompt_length(request: Request, limit: int | None, image_token: int | None) -> None:
    """Raises DataError, naming the request, for a prompt of more tokens than the limit. None: any length is accepted."""
    length = len(request.prompt.ids)
    if limit is not None and length > limit:
        image_tokens = 0 if image_token is None else request.prompt.ids.count(image_token)
        raise DataError(
            f"{request.id}: the prompt has {length} tokens ({image_tokens} of images), more than "
            f"rollout.max_prompt_tokens={limit}; raise it, or lower policy.max_pixels"
        )
