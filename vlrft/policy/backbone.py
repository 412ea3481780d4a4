"""A causal language model as embedding, positions, decoder and head, with one interface for text-only and multimodal models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vlrft.distributed.cuda_settings import to_device
from vlrft.policy.attention.compact import CompactRows
from vlrft.policy.attention.decoder import PACKED, compact_arguments, install, packed_arguments
from vlrft.policy.attention.rows import PackedRows
from vlrft.policy.families import vision_family
from vlrft.policy.forked.layers import FULL, RECURRENT
from vlrft.policy.forked.mixer import Forks, install_forks
from vlrft.policy.image_encoder import ImageEncoder, PromptImages, collect_images
from vlrft.policy.image_features import ImageFeatures
from vlrft.policy.prompt_positions import PromptPositions
from vlrft.policy.trainable import without_adapters
from vlrft.schema import Pixels, Prompt


@dataclass(frozen=True, kw_only=True)
class DecoderInputs:
    """Embedded prompts, and where they have images the tokens of these with their features."""

    embeds: Float[Tensor, "B L H"]
    places: Bool[Tensor, "B L"] | None = None
    features: ImageFeatures | None = None


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
        self.positions = PromptPositions(self.vision, causal)
        self.place_ids = self.positions.place_ids
        install(self.decoder.config)
        self.recurrent_layers = install_forks(self.decoder)
        """How many layers of the decoder are recurrent: they fork (`vlrft.policy.forked`)."""
        self.keeps_features = True  # of a frozen tower; False where ranks must run equal modules
        self.image_encoder: ImageEncoder | None = None
        if self.vision is not None:
            self.image_encoder = ImageEncoder(self.vision, causal, frozen=frozen_vision)
        self._causal = causal

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
        places = self.find_places(ids)
        embeds = embeds.masked_scatter(places[..., None], features.embeds)
        return DecoderInputs(embeds=embeds, places=places, features=features)

    def find_places(self, ids: Int[Tensor, "B L"]) -> Bool[Tensor, "B L"]:
        """The tokens of images and videos."""
        places = ids == self.place_ids[0]
        for token in self.place_ids[1:]:
            places = places | (ids == token)
        return places

    def packed_hidden_states(
        self, inputs: DecoderInputs, positions: Int[Tensor, "A R L"], rows: PackedRows
    ) -> Float[Tensor, "R L H"]:
        """Hidden states of packed rows after the last norm, by the decoder's attention."""
        return self._run_packed(inputs, positions, rows)

    def prefill(
        self,
        inputs: DecoderInputs,
        positions: Int[Tensor, "A B L"],
        rows: PackedRows,
        cache: Any,
    ) -> Float[Tensor, "B L H"]:
        """Hidden states of prompts, padded on the right, whose keys and values fill a transformers cache. `rows`: of nothing but
        prompts. Without gradients; the kernels are those of decoding whatever the decoder's attention is."""
        with attending(self.decoder.config, PACKED):
            return self._run_packed(inputs, positions, rows, past_key_values=cache)

    def _run_packed(
        self,
        inputs: DecoderInputs,
        positions: Int[Tensor, "A R L"],
        rows: PackedRows,
        **options: Any,
    ) -> Float[Tensor, "R L H"]:
        if not self.recurrent_layers:
            compact = compact_arguments(self.attention, rows, inputs.embeds)
            if compact is not None:
                return self._run_compact(inputs, positions, {**compact, **options})
        extra = self._extra_arguments(inputs.features, inputs.places)
        arguments = {**packed_arguments(self.attention, rows, inputs.embeds), **options}
        if not self.recurrent_layers:
            return self.call_decoder(inputs.embeds, positions, **arguments, **extra)
        forks = Forks(rows)
        mask = {FULL: arguments["attention_mask"], RECURRENT: None}  # forks need none
        arguments = {**arguments, "attention_mask": mask, "forks": forks}
        hidden = self.call_decoder(inputs.embeds, positions, **arguments, **extra)
        forks.check(self.recurrent_layers)
        return hidden

    def _run_compact(
        self,
        inputs: DecoderInputs,
        positions: Int[Tensor, "A R L"],
        arguments: Mapping[str, Any],
    ) -> Float[Tensor, "R L H"]:
        """Each token that differs is run once (`vlrft.policy.attention.compact`)."""
        compact: CompactRows = arguments["packed"].compact
        tokens = compact.keep(inputs.embeds.flatten(0, 1))[None]
        at = positions.flatten(1)[:, compact.kept][:, None]
        places = inputs.places
        if (
            places is not None
        ):  # no image is in what the rows share: all of their tokens are kept, in order
            places = places.flatten()[compact.kept][None]
        extra = self._extra_arguments(inputs.features, places)
        hidden = self.call_decoder(tokens, at, **arguments, **extra)
        cache = arguments.get("past_key_values")
        for layer in cache.layers if cache is not None else ():
            layer.keys, layer.values = map(compact.spread_heads, (layer.keys, layer.values))
        return compact.spread(hidden[0]).view(*compact.shape, -1)

    def _extra_arguments(
        self, features: ImageFeatures | None, places: Bool[Tensor, "B L"] | None
    ) -> Mapping[str, Any]:
        """Arguments of the decoder's forward for features that enter later layers."""
        if self.vision is None or features is None or places is None:
            return {}
        return self.vision.decoder_arguments(features, places)

    @property
    def attention(self) -> str:
        """The decoder's attention, as transformers names it."""
        name: str = self.decoder.config._attn_implementation
        return name

    def continue_rows(
        self, inputs: DecoderInputs, positions: Int[Tensor, "A B L"], **options: Any
    ) -> Float[Tensor, "B L H"]:
        """Hidden states of tokens, those of images with their features, after others that a cache holds. `options`: see
        `call_decoder`."""
        extra = self._extra_arguments(inputs.features, inputs.places)
        return self.call_decoder(inputs.embeds, positions, **extra, **options)

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

    def model_inputs(self, ids: Int[Tensor, "B T"], images: Sequence[Pixels]) -> dict[str, Tensor]:
        """The arguments for images and videos of transformers' forward and `generate()`."""
        if self.vision is None or not images:
            return {}
        return self.vision.model_inputs(self.find_places(ids), images)


@contextmanager
def attending(config: Any, name: str) -> Iterator[None]:
    """A context in which the model of this config uses the attention that transformers registers as `name`."""
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before
