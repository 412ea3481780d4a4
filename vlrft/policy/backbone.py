"""A causal language model as embedding, positions, decoder and head, with one interface for text-only and multimodal models."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vlrft.distributed.cuda_settings import to_device
from vlrft.policy.attention.decoder import PACKED, install, packed_arguments
from vlrft.policy.attention.rows import PackedRows
from vlrft.policy.families import vision_family
from vlrft.policy.image_encoder import ImageEncoder, PromptImages, collect_images
from vlrft.policy.trainable import without_adapters
from vlrft.schema import DataError, Pixels, Prompt

KEPT_LAYOUTS = 1024  # prompt layouts whose positions are kept
# Positions are computed in multiples of this length, so that longer rows rarely need new ones.
SPARE_POSITIONS = 64


@dataclass(frozen=True, kw_only=True)
class DecoderInputs:
    """Embedded prompts. `extra`: further arguments of the decoder's forward, from `VisionFamily.decoder_arguments`."""

    embeds: Float[Tensor, "B L H"]
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Backbone:
    """Embeds prompts, computes their rotary positions and runs the decoder.

    Axes: A rotary axes (1 for text-only models), B rows, R packed rows, L positions of a row, H hidden, F features.
    """

    def __init__(self, model: Any, *, frozen_vision: bool = False) -> None:
        """`model`: a transformers causal model or a peft model around one. `frozen_vision`: no parameter of its vision
        tower is ever trained, so that the features of an image are cached."""
        causal = without_adapters(model)
        self.decoder: Any = causal.get_decoder()
        self.head: Any = causal.get_output_embeddings()
        self.vision = vision_family(causal)  # None: text only
        self.axes = 1 if self.vision is None else self.vision.axes
        self.image_token_id: int = -1 if self.vision is None else causal.config.image_token_id
        install(self.decoder.config)
        self.keeps_features = True  # of a frozen tower; False where ranks must run equal modules
        self.image_encoder: ImageEncoder | None = None
        if self.vision is not None:
            self.image_encoder = ImageEncoder(self.vision, causal, frozen=frozen_vision)
        self._causal = causal
        self._layouts: OrderedDict[object, Int[Tensor, "A L"]] = OrderedDict()

    @property
    def device(self) -> torch.device:
        weight: Tensor = self.decoder.get_input_embeddings().weight
        return weight.device

    @property
    def multimodal(self) -> bool:
        return self.vision is not None

    @property
    def vision_tower(self) -> nn.Module | None:
        return None if self.vision is None else self.vision.vision_tower(self._causal)

    def collect_images(self, prompts: Sequence[Prompt]) -> PromptImages:
        """The distinct images of the prompts, and the feature of each image token."""
        return collect_images(prompts)

    def embed(self, ids: Int[Tensor, "B L"], images: PromptImages) -> DecoderInputs:
        """Token embeddings, with image features in place of the image tokens."""
        embeds: Tensor = self.decoder.get_input_embeddings()(ids)
        encoder = self.image_encoder
        if not images.distinct or encoder is None:
            return DecoderInputs(embeds=embeds)
        order = to_device(images.order, embeds.device)
        encoded = encoder.encode(images.distinct, self.device, cached=self.keeps_features)
        features = encoded.map(lambda tensor: tensor.to(embeds.dtype)[order])
        places = ids == self.image_token_id
        return DecoderInputs(
            embeds=embeds.masked_scatter(places[..., None], features.embeds),
            extra=encoder.vision.decoder_arguments(features, places),
        )

    def packed_hidden_states(
        self, inputs: DecoderInputs, positions: Int[Tensor, "A R L"], rows: PackedRows
    ) -> Float[Tensor, "R L H"]:
        """Hidden states of packed rows after the last norm, by the decoder's attention."""
        arguments = packed_arguments(self.attention, rows, inputs.embeds)
        return self.call_decoder(inputs.embeds, positions, **arguments, **inputs.extra)

    def prefill(
        self,
        inputs: DecoderInputs,
        positions: Int[Tensor, "A B L"],
        lengths: Sequence[int],
        cache: Any,
    ) -> Float[Tensor, "B L H"]:
        """Hidden states of prompts of these lengths, padded on the right, whose keys and values fill a transformers cache.
        Without gradients; the kernels are those of decoding whatever the decoder's attention is."""
        rows = PackedRows.of_prompts(lengths)
        with attending(self.decoder.config, PACKED):
            arguments = packed_arguments(PACKED, rows, inputs.embeds)
            return self.call_decoder(
                inputs.embeds, positions, past_key_values=cache, **arguments, **inputs.extra
            )

    @property
    def attention(self) -> str:
        """The decoder's attention, as transformers names it."""
        name: str = self.decoder.config._attn_implementation
        return name

    def call_decoder(
        self, embeds: Float[Tensor, "B L H"], positions: Int[Tensor, "A B L"], **options: Any
    ) -> Float[Tensor, "B L H"]:
        """The decoder's forward; `options` are further arguments of it."""
        out = self.decoder(
            inputs_embeds=embeds,
            position_ids=positions if self.axes > 1 else positions[0],
            use_cache=options.get("past_key_values") is not None,
            **options,
        )
        hidden: Tensor = out.last_hidden_state
        return hidden

    def positions(self, prompt: Prompt, more: int, name: str) -> Int[Tensor, "A L"]:
        """Rotary positions of a prompt and `more` tokens of text after it (CPU).

        Raises DataError, with `name` in the message, when the prompt's image tokens and its images' features differ in
        number.
        """
        length = len(prompt.ids) + more
        if self.vision is None:
            return torch.arange(length)[None]
        places = np.array(prompt.ids) == self.image_token_id
        layout = (len(prompt.ids), places.tobytes(), tuple(i.grid for i in prompt.images))
        positions = self._layouts.get(layout)
        if positions is None or positions.shape[1] < length:
            _check_places(int(places.sum()), prompt, name)
            padded = -(-length // SPARE_POSITIONS) * SPARE_POSITIONS  # text at the end changes none
            places = np.pad(places, (0, padded - len(places)))
            positions = self.vision.positions(self._causal, places, prompt.images)
            self._layouts[layout] = positions
            if len(self._layouts) > KEPT_LAYOUTS:
                self._layouts.popitem(last=False)
        return positions[:, :length]

    def model_inputs(self, ids: Int[Tensor, "B T"], images: Sequence[Pixels]) -> dict[str, Tensor]:
        """The image arguments of transformers' forward and `generate()`."""
        if self.vision is None or not images:
            return {}
        return self.vision.model_inputs(ids == self.image_token_id, images)


def _check_places(places: int, prompt: Prompt, name: str) -> None:
    features = sum(image.tokens for image in prompt.images)
    if places != features:
        raise DataError(
            f"{name}: {places} image tokens in the prompt, but its {len(prompt.images)} images have "
            f"{features} features; render it with this policy's chat"
        )


@contextmanager
def attending(config: Any, name: str) -> Iterator[None]:
    """A context in which the model of this config uses the attention that transformers registers as `name`."""
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before
