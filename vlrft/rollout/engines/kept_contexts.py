"""Keys and values of contexts that prompts of the next `generate` may begin with.

A context is a prompt and the tokens of one completion without the last of them, which has not been run. Contexts of one request
share the keys of its prompt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vlrft.rollout.engines.decoding_rows import DecodingRows, KeyPair
from vlrft.rollout.engines.types import Request
from vlrft.schema import Prompt


@dataclass(frozen=True, kw_only=True)
class EndedRow:
    """A completion that has ended and is still in the cache."""

    row: int  # in the cache
    number: int  # of its request, among those of the call
    request: Request
    ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Context:
    """Tokens that have been run, and the slots that hold their keys."""

    ids: tuple[int, ...]  # [L]
    images: tuple[str, ...]  # keys of its images
    slots: Int[Tensor, " L"]

    def begins(self, prompt: Prompt) -> bool:
        """Whether the prompt is this context, with the same images, and at least one token more."""
        length, images = len(self.ids), prompt.images[: len(self.images)]
        return (
            len(prompt.ids) > length
            and prompt.ids[:length] == self.ids
            and tuple(image.key for image in images) == self.images
        )


class KeptContexts:
    """Contexts of one `generate`, for the next. Slots are numbered in the order in which they are filled."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Frees all."""
        self.tokens = 0  # slots that are filled
        self._contexts: dict[str, list[Context]] = {}  # by the request's id
        self._prompts: dict[int, Int[Tensor, " P"]] = {}  # slots, by the request's number
        self._layers: dict[int, list[KeyPair]] = {}  # by layer, those of one `add` after another

    def find(self, request: Request) -> Context | None:
        """The longest context that the request's prompt begins with."""
        fitting = [c for c in self._contexts.get(request.id, ()) if c.begins(request.prompt)]
        return max(fitting, key=lambda context: len(context.ids), default=None)

    def add(
        self, rows: Iterable[EndedRow], cache: DecodingRows, room: int, *, drop: bool = False
    ) -> None:
        """Copies the contexts of rows, of those that `room` more slots hold. `drop`: see `DecodingRows.copy_keys`."""
        prompt_of, lengths = cache.prompt_of_rows(), cache.prompts.lengths
        chosen: list[EndedRow] = []
        prompts: dict[int, int] = {}  # those that are copied, by the request's number
        for row in rows:
            prompt = prompt_of[row.row]
            copied = row.number in self._prompts or row.number in prompts
            count = len(row.ids) - 1 + (0 if copied else lengths[prompt])
            if count <= room:
                room -= count
                chosen.append(row)
                if not copied:
                    prompts[row.number] = prompt
        if not chosen:
            return
        for number, prompt in prompts.items():
            self._prompts[number] = self._fill(lengths[prompt])
        for row in chosen:
            slots = torch.cat([self._prompts[row.number], self._fill(len(row.ids) - 1)])
            context = Context(
                ids=row.request.prompt.ids + row.ids[:-1],
                images=tuple(image.key for image in row.request.prompt.images),
                slots=slots,
            )
            self._contexts.setdefault(row.request.id, []).append(context)
        own = [(row.row, len(row.ids) - 1) for row in chosen]
        for layer, pair in cache.copy_keys(list(prompts.values()), own, drop=drop).items():
            self._layers.setdefault(layer, []).append(pair)

    def _fill(self, count: int) -> Int[Tensor, " N"]:
        self.tokens += count
        return torch.arange(self.tokens - count, self.tokens)

    def read(
        self, layer: int, slots: Int[Tensor, "*S"], *, drop: bool
    ) -> tuple[Float[Tensor, "*S W D"], Float[Tensor, "*S W D"]]:
        """Copies of the slots' keys and values. `drop`: they are not read again, and the layer's are dropped."""
        parts = self._layers.pop(layer) if drop else self._layers[layer]
        keys = torch.cat([key for key, _ in parts]) if len(parts) > 1 else parts[0][0]
        values = torch.cat([value for _, value in parts]) if len(parts) > 1 else parts[0][1]
        return keys[slots], values[slots]
