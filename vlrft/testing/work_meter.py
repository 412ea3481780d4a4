"""Counts work by hooks on a model's own modules: nothing that vlrft or TRL says of itself is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional

from vlrft.policy.families import vision_family


@dataclass(kw_only=True)
class Work:
    """Of a rollout or of an update."""

    images: int = 0  # that the image processor was given
    vision: int = 0  # forwards of the vision tower
    patches: int = 0  # in them
    tokens: int = 0  # through the decoder, more than one of a row at once, without padding
    positions: int = 0  # the same with padding
    decoded: int = 0  # one of a row at a time
    head: int = 0  # rows of the language-model head
    backward: int = 0  # calls

    def __str__(self) -> str:
        return ", ".join(f"{f.name} {v}" for f in fields(self) if (v := getattr(self, f.name)))


class Meter:
    """Books work of a phase, by its name; what happens outside of phases is not counted."""

    def __init__(self) -> None:
        self.work: dict[str, Work] = {}
        self._phase: str | None = None
        self.head_shape: tuple[int, ...] = ()  # vocabulary, hidden
        self._goes_back = False  # logits that are made once more for it are not counted

    @property
    def now(self) -> Work:
        return self.work.setdefault(self._phase, Work()) if self._phase else Work()

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        before, self._phase = self._phase, phase
        try:
            yield
        finally:
            self._phase = before

    def watch(self, model: Any, pad_id: int) -> None:
        """Hooks on a multimodal model; copies of it, such as a reference, count as well."""
        vision = vision_family(model)
        assert vision is not None

        def tower(module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            pixels = given[0] if given else named["hidden_states"]
            self.now.vision += 1
            self.now.patches += len(pixels)

        def embedding(module: Any, given: tuple[Tensor, ...]) -> None:
            if given[0].shape[1] > 1:
                self.now.tokens += int((given[0] != pad_id).sum())

        def decoder(module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            rows, length = named["inputs_embeds"].shape[:2]
            if length > 1:
                self.now.positions += rows * length
            else:
                self.now.decoded += rows

        self.head_shape = model.get_output_embeddings().weight.shape
        vision.vision_tower(model).register_forward_pre_hook(tower, with_kwargs=True)
        model.get_input_embeddings().register_forward_pre_hook(embedding)
        model.get_decoder().register_forward_pre_hook(decoder, with_kwargs=True)

    @contextmanager
    def calls(self, image_processor: Any) -> Iterator[None]:
        """Counts the image processor's images, the backward calls, and what is multiplied by a matrix of the head's shape,
        inside the head or not."""
        kind: Any = type(image_processor)
        process, backward, linear = kind.__call__, torch.Tensor.backward, functional.linear

        def multiplied(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
            if weight.shape == self.head_shape and not self._goes_back:
                self.now.head += states.shape[:-1].numel()
            return linear(states, weight, bias)

        def processed(own: Any, images: Any, *rest: Any, **named: Any) -> Any:
            self.now.images += _number(images)
            return process(own, images, *rest, **named)

        def went_back(loss: Tensor, *given: Any, **named: Any) -> None:
            self.now.backward += 1
            self._goes_back = True
            try:
                backward(loss, *given, **named)  # type: ignore[no-untyped-call]
            finally:
                self._goes_back = False

        with (
            patch.object(kind, "__call__", processed),
            patch.object(torch.Tensor, "backward", went_back),
            patch.object(functional, "linear", multiplied),
        ):
            yield


def _number(images: Any) -> int:
    return sum(map(_number, images)) if isinstance(images, Sequence) else 1
