"""Requests -> portions that are sampled at once, prompts of like length together, within bounds of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from vlrft.rollout.engines.types import Request

PREFILL_TOKENS = (
    2**16
)  # of prompts, padding included, that are run at once: bounds their activations and mask


def portions(
    requests: Sequence[Request], *, steps: int, max_rows: int, max_cache_tokens: int
) -> Iterator[list[tuple[int, Request]]]:
    """Requests with their places, longest prompts first, so that a portion has little padding and the largest comes first.

    A portion has at most `max_rows` seeds, `max_cache_tokens` keys (of its padded prompts, and `steps` a seed) and
    `PREFILL_TOKENS` tokens of prompts; what does not fit even alone is cut by its seeds, down to one.
    """
    order = sorted(range(len(requests)), key=lambda i: -len(requests[i].prompt.ids))
    portion: list[tuple[int, Request]] = []
    rows, longest = 0, 0
    for index in order:
        request = requests[index]
        seeds, length = request.seeds, len(request.prompt.ids)
        while seeds:
            longest = longest if portion else length
            prompts = (len(portion) + 1) * longest
            room = min(max_rows - rows, (max_cache_tokens - prompts) // steps - rows)
            fits = prompts <= PREFILL_TOKENS and room >= len(seeds)
            if portion and not fits:
                yield portion
                portion, rows = [], 0
                continue
            taken = seeds[: max(room, 1)]
            portion.append((index, replace(request, seeds=taken)))
            rows, seeds = rows + len(taken), seeds[len(taken) :]
    if portion:
        yield portion
