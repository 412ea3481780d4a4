"""Image features, the output of a vision model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class ImageFeatures:
    """Features of images, one image after another. Axes: F features, H hidden.

    `embeds` replace the embeddings of the image tokens. `layers`, empty for most families, are added to the hidden states
    of the image tokens after the first decoder layers, one each (deepstack).
    """

    embeds: Float[Tensor, "F H"]
    layers: tuple[Float[Tensor, "F H"], ...] = ()

    def __len__(self) -> int:
        return len(self.embeds)

    @property
    def nbytes(self) -> int:
        return self.embeds.nbytes + sum(layer.nbytes for layer in self.layers)

    def map(self, change: Callable[[Tensor], Tensor]) -> ImageFeatures:
        """`change` applied to every tensor."""
        return ImageFeatures(embeds=change(self.embeds), layers=tuple(map(change, self.layers)))

    def split(self, sizes: Sequence[int]) -> list[ImageFeatures]:
        """The features of each image; `sizes`: how many each has. Views, not copies."""
        starts = [sum(sizes[:k]) for k in range(len(sizes))]
        return [
            self.map(lambda tensor, at=start, size=size: tensor[at : at + size])  # type: ignore[misc]
            for start, size in zip(starts, sizes, strict=True)
        ]

    @staticmethod
    def concatenate(parts: Sequence[ImageFeatures]) -> ImageFeatures:
        layers = zip(*(part.layers for part in parts), strict=True)
        return ImageFeatures(
            embeds=torch.cat([part.embeds for part in parts]),
            layers=tuple(torch.cat(layer) for layer in layers),
        )
