"""Work of a model in exact counts, by hooks on its modules; no report of vlrft's or TRL's is read."""

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
    """Counts of one phase, such as a rollout or an update."""

    images: int = 0  # passed to the image processor
    vision: int = 0  # forwards of the vision model
    patches: int = 0  # in these forwards
    tokens: int = 0  # through the decoder, in forwards of several tokens per row, without padding
    positions: int = 0  # the same with padding
    decoded: int = 0  # through the decoder, in forwards of one token per row
    head: int = 0  # rows of the language-model head
    backward: int = 0  # calls of backward

    def __str__(self) -> str:
        return ", ".join(f"{f.name} {v}" for f in fields(self) if (v := getattr(self, f.name)))


class WorkMeter:
    """Counts work by phase, from phase name to `Work`; work outside of phases is not counted."""

    def __init__(self) -> None:
        self.work: dict[str, Work] = {}
        self._phase: str | None = None
        self.head_shape: tuple[int, ...] = ()  # vocabulary, hidden
        self._in_backward = False  # logits that backward recomputes are not counted

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
        """Register hooks on a multimodal model; copies of it made later, such as a reference, are counted, too."""
        vision = vision_family(model)
        assert vision is not None

        def count_tower(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            pixels = args[0] if args else kwargs["hidden_states"]
            self.now.vision += 1
            self.now.patches += len(pixels)

        def count_embedding(module: Any, args: tuple[Tensor, ...]) -> None:
            if args[0].shape[1] > 1:
                self.now.tokens += int((args[0] != pad_id).sum())

        def count_decoder(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            rows, length = kwargs["inputs_embeds"].shape[:2]
            if length > 1:
                self.now.positions += rows * length
            else:
                self.now.decoded += rows

        self.head_shape = model.get_output_embeddings().weight.shape
        vision.vision_tower(model).register_forward_pre_hook(count_tower, with_kwargs=True)
        model.get_input_embeddings().register_forward_pre_hook(count_embedding)
        model.get_decoder().register_forward_pre_hook(count_decoder, with_kwargs=True)

    @contextmanager
    def count_calls(self, image_processor: Any) -> Iterator[None]:
        """Count the image processor's images, backward calls, and rows multiplied by a matrix of the head's shape, whether
        the head's module does it or not."""
        kind: Any = type(image_processor)
        process, backward, linear = kind.__call__, torch.Tensor.backward, functional.linear

        def count_linear(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
            if weight.shape == self.head_shape and not self._in_backward:
                self.now.head += states.shape[:-1].numel()
            return linear(states, weight, bias)

        def count_images(processor: Any, images: Any, *args: Any, **kwargs: Any) -> Any:
            self.now.images += _number(images)
            return process(processor, images, *args, **kwargs)

        def count_backward(loss: Tensor, *args: Any, **kwargs: Any) -> None:
            self.now.backward += 1
            self._in_backward = True
            try:
                backward(loss, *args, **kwargs)  # type: ignore[no-untyped-call]
            finally:
                self._in_backward = False

        with (
            patch.object(kind, "__call__", count_images),
            patch.object(torch.Tensor, "backward", count_backward),
            patch.object(functional, "linear", count_linear),
        ):
            yield


def _number(images: Any) -> int:
    return sum(map(_number, images)) if isinstance(images, Sequence) else 1
