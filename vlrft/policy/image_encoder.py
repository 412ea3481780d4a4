"""Images -> features of the image tokens: each distinct image is encoded once, and by a frozen vision model once in a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from vlrft.memory.limits import FEATURE_BYTES
from vlrft.policy.byte_cache import ByteCache
from vlrft.policy.families import VisionFamily
from vlrft.policy.image_features import ImageFeatures
from vlrft.schema import DataError, Pixels, Prompt


@dataclass(frozen=True, kw_only=True)
class PromptImages:
    """The distinct images of several prompts. Axis F: the image tokens of the prompts, in order."""

    distinct: tuple[Pixels, ...]
    order: Int[Tensor, " F"]  # of each image token, the index of its feature in `distinct`


def collect_images(prompts: Sequence[Prompt]) -> PromptImages:
    """The distinct images of the prompts, and the feature of each image token."""
    starts: dict[str, int] = {}
    distinct: list[Pixels] = []
    order: list[Tensor] = []
    end = 0
    for image in (image for prompt in prompts for image in prompt.images):
        if image.key not in starts:
            starts[image.key] = end
            distinct.append(image)
            end += image.tokens
        start = starts[image.key]
        order.append(torch.arange(start, start + image.tokens))
    return PromptImages(
        distinct=tuple(distinct),
        order=torch.cat(order) if order else torch.empty(0, dtype=torch.long),
    )


class ImageEncoder:
    """The vision model of a causal model, with a cache of features where it is frozen."""

    def __init__(self, vision: VisionFamily, causal: Any, *, frozen: bool) -> None:
        """`frozen`: no parameter of the vision model is ever trained."""
        self.vision = vision
        self.frozen = frozen
        self.cache = ByteCache[ImageFeatures](FEATURE_BYTES if frozen else 0)
        self._causal = causal

    def encode(
        self, images: Sequence[Pixels], device: torch.device, *, cached: bool = True
    ) -> ImageFeatures:
        """The features of images, one image after another. `cached`: those that a frozen vision model has computed before
        are not computed again.

        Raises DataError where an image has not as many features as tokens in its prompt.
        """
        if not (self.frozen and cached):
            return self._run(images, device)
        features = {image.key: self.cache.get(image.key) for image in images}
        new = [image for image in images if features[image.key] is None]
        if new:
            with torch.no_grad():
                parts = self._run(new, device).split([image.tokens for image in new])
            for image, part in zip(new, parts, strict=True):
                features[image.key] = part
                copy = part.map(torch.clone)  # a view would keep the features of all images
                self.cache.put(image.key, copy, copy.nbytes)
        return ImageFeatures.concatenate([part for part in features.values() if part is not None])

    def _run(self, images: Sequence[Pixels], device: torch.device) -> ImageFeatures:
        features = self.vision.encode(self._causal, images, device)
        tokens = sum(image.tokens for image in images)
        if len(features) != tokens:
            raise DataError(
                f"{len(images)} images have {len(features)} features, but {tokens} tokens in their prompts; "
                "the image processor is not the model's"
            )
        return features
