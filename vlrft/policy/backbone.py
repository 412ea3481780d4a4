"""The decoder of a causal language model behind one call. Where text-only and seeing models differ, they differ here."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vlrft.policy.byte_cache import ByteCache
from vlrft.schema import DataError, Pixels, Prompt

FEATURE_BYTES = 2**30  # of the images' features that a frozen tower keeps, on the policy's device
KEPT_LAYOUTS = 1024  # prompt layouts whose positions are kept
DENSE = {"flex_attention": "sdpa"}  # what takes a mask of tensors in the place of one that does not
SPARE_POSITIONS = 64  # positions come in multiples of it, so that a longer row seldom asks anew


class Backbone:
    """Embeds prompts, knows their positions and runs the decoder.

    A model sees when its inner model has `get_image_features` and `get_rope_index`. Axes: A is 3 (time, height, width)
    where a model sees, else 1; L positions of a row, K positions that are attended to, H hidden, F features.
    """

    def __init__(self, model: Any, *, frozen_vision: bool = False) -> None:
        """`model`: a transformers causal model or a peft model around one. `frozen_vision`: nothing of its vision tower
        is ever trained, so that an image's features are kept."""
        causal = model.get_base_model() if hasattr(model, "get_base_model") else model
        self.decoder: Any = causal.get_decoder()
        self.head: Any = causal.get_output_embeddings()
        self.seeing: Any = causal.base_model if sees(causal) else None
        self.axes = 1 if self.seeing is None else 3
        self.image_token_id: int = -1 if self.seeing is None else causal.config.image_token_id
        self._known = ByteCache[Tensor](FEATURE_BYTES if frozen_vision else 0)
        self._frozen = frozen_vision
        self.keeps_features = (
            True  # where `frozen_vision`; not where ranks must run the same modules
        )
        self._layouts: OrderedDict[object, Int[Tensor, "A L"]] = OrderedDict()

    @property
    def device(self) -> torch.device:
        weight: Tensor = self.decoder.get_input_embeddings().weight
        return weight.device

    def embed(self, ids: Int[Tensor, "B L"], seen: Seen) -> Float[Tensor, "B L H"]:
        """Token embeddings with the images' features in the place of the placeholders."""
        embeds: Tensor = self.decoder.get_input_embeddings()(ids)
        if not seen.images:
            return embeds
        encode = self._kept if self._frozen and self.keeps_features else self._encoded
        features = encode(seen.images).to(embeds.dtype)
        places = (ids == self.image_token_id)[..., None]
        return embeds.masked_scatter(places, features[seen.order.to(embeds.device)])

    def _encoded(self, images: Sequence[Pixels]) -> Float[Tensor, "F H"]:
        """The features of images, one after another."""
        values = torch.cat([image.values for image in images]).to(self.device)
        grids = torch.tensor([image.grid for image in images], device=self.device)
        made = self.seeing.get_image_features(values, grids, return_dict=True).pooler_output
        return torch.cat(tuple(made))

    def _kept(self, images: Sequence[Pixels]) -> Float[Tensor, "F H"]:
        """The same, and no image that is still known is encoded again."""
        known = {image.key: self._known.get(image.key) for image in images}
        fresh = [image for image in images if known[image.key] is None]
        if fresh:
            with torch.no_grad():
                made = torch.split(self._encoded(fresh), [self.features(i) for i in fresh])
            for image, features in zip(fresh, made, strict=True):
                known[image.key] = features
                own = features.clone()  # not a view that keeps the others alive
                self._known.put(image.key, own, own.nbytes)
        return torch.cat([found for found in known.values() if found is not None])

    def run(
        self,
        embeds: Float[Tensor, "B L H"],
        positions: Int[Tensor, "A B L"],
        allowed: Bool[Tensor, "B L K"],
        cache: Any = None,
    ) -> Float[Tensor, "B L H"]:
        """Hidden states behind the last norm. `allowed`: which keys a position attends to; at least one each."""
        with attending(self.decoder.config, DENSE.get(self.attention, self.attention)):
            mask = self._mask(allowed[:, None], embeds.dtype)
            return self.decode(embeds, positions, attention_mask=mask, past_key_values=cache)

    def run_packed(
        self,
        embeds: Float[Tensor, "B L H"],
        positions: Int[Tensor, "A B L"],
        segments: Int[Tensor, "B L"],
    ) -> Float[Tensor, "B L H"]:
        """The same for packed rows; with flex_attention no mask of L x L entries is ever made."""
        if self.attention == "flex_attention":
            return self.decode(embeds, positions, attention_mask=sparse_mask(segments))
        return self.run(embeds, positions, block_mask(segments))

    @property
    def attention(self) -> str:
        """The decoder's attention, as transformers names it."""
        name: str = self.decoder.config._attn_implementation
        return name

    def decode(
        self, embeds: Float[Tensor, "B L H"], positions: Int[Tensor, "A B L"], **options: Any
    ) -> Float[Tensor, "B L H"]:
        """The decoder's own call, with what else it is given."""
        out = self.decoder(
            inputs_embeds=embeds,
            position_ids=positions if self.axes == 3 else positions[0],
            use_cache=options.get("past_key_values") is not None,
            **options,
        )
        hidden: Tensor = out.last_hidden_state
        return hidden

    def _mask(self, allowed: Tensor, dtype: torch.dtype) -> Tensor:
        if self.attention == "sdpa":
            return allowed
        least = torch.finfo(dtype).min
        return torch.zeros_like(allowed, dtype=dtype).masked_fill(~allowed, least)

    def positions(self, prompt: Prompt, own: int, name: str) -> Int[Tensor, "A L"]:
        """Rotary positions of a prompt and `own` tokens of text behind it (CPU).

        Raises DataError, naming `name`, when the prompt's placeholders are not as many as its images' features.
        """
        length = len(prompt.ids) + own
        if self.seeing is None:
            return torch.arange(length)[None]
        places = np.array(prompt.ids) == self.image_token_id
        grids = tuple(image.grid for image in prompt.images)
        layout = (len(prompt.ids), places.tobytes(), grids)
        known = self._layouts.get(layout)
        if known is None or known.shape[1] < length:
            self._check_places(int(places.sum()), prompt, name)
            known = self._rope_index(places, grids, length)
            self._layouts[layout] = known
            if len(self._layouts) > KEPT_LAYOUTS:
                self._layouts.popitem(last=False)
        return known[:, :length]

    def _check_places(self, places: int, prompt: Prompt, name: str) -> None:
        features = sum(map(self.features, prompt.images))
        if places != features:
            raise DataError(
                f"{name}: {places} image tokens in the prompt, but its {len(prompt.images)} images have "
                f"{features} features; render it with the policy's own chat"
            )

    def _rope_index(self, places: Any, grids: tuple[Any, ...], length: int) -> Tensor:
        """The model's own positions of the unpacked row; text behind the prompt changes none before it."""
        padded = -(-length // SPARE_POSITIONS) * SPARE_POSITIONS
        kinds = torch.zeros(1, padded, dtype=torch.int)
        kinds[0, : len(places)] = torch.from_numpy(places)
        ids = torch.where(kinds > 0, self.image_token_id, 0).long()
        found: Tensor
        found, _ = self.seeing.get_rope_index(
            ids, mm_token_type_ids=kinds, image_grid_thw=torch.tensor(grids) if grids else None
        )
        return found[:, 0]

    def features(self, image: Pixels) -> int:
        """Positions that an image takes."""
        time, height, width = image.grid
        merged: int = self.seeing.config.vision_config.spatial_merge_size**2
        return time * height * width // merged

    def see(self, prompts: Sequence[Prompt]) -> Seen:
        """The images of several prompts, each distinct one once, and where their features go."""
        starts: dict[str, int] = {}
        images: list[Pixels] = []
        order: list[Tensor] = []
        end = 0
        for image in (image for prompt in prompts for image in prompt.images):
            count = self.features(image)
            if image.key not in starts:
                starts[image.key] = end
                images.append(image)
                end += count
            order.append(torch.arange(starts[image.key], starts[image.key] + count))
        return Seen(
            images=tuple(images),
            order=torch.cat(order) if order else torch.empty(0, dtype=torch.long),
        )


def block_mask(segments: Int[Tensor, "R L"]) -> Bool[Tensor, "R L L"]:
    """Which keys (last axis) a position attends to: those before it in the prompt and in its own segment."""
    length = segments.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=segments.device).tril()
    query, key = segments[:, :, None], segments[:, None, :]
    return causal & ((key == 0) | (key == query))


def sparse_mask(segments: Int[Tensor, "R L"]) -> Any:
    """The same for flex_attention, which skips the blocks of 128 x 128 that nothing attends to."""
    from torch.nn.attention.flex_attention import create_block_mask

    def allowed(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        own = segments[row, key]
        return (query >= key) & ((own == 0) | (own == segments[row, query]))

    rows, length = segments.shape
    return create_block_mask(allowed, rows, None, length, length, device=segments.device.type)


@contextmanager
def attending(config: Any, name: str) -> Iterator[None]:
    """Within it the model of this config attends by the function that transformers knows by `name`."""
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Distinct images, and for each placeholder of the prompts, in order, which of their features it gets."""

    images: tuple[Pixels, ...]
    order: Int[Tensor, " F"]


def sees(causal: Any) -> bool:
    """Whether a causal model has a vision tower that this package can drive: its features replace embeddings, and
    nothing of it enters the decoder later (as in Qwen3-VL)."""
    inner = getattr(causal, "base_model", None)
    if not (hasattr(inner, "get_image_features") and hasattr(inner, "get_rope_index")):
        return False
    return not hasattr(causal.config.vision_config, "deepstack_visual_indexes")
