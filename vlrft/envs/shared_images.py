"""Equal images of a sample's environments become one object, which is then processed once."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vlrft.schema import Observation, Step

if TYPE_CHECKING:
    from PIL.Image import Image


class SharedImages:
    """The images of observations, by sample and by the digest of the result that showed them."""

    def __init__(self) -> None:
        self._images: dict[str, dict[bytes, tuple[Image, ...]]] = {}

    def share(self, sample: str, result: Any, digest: bytes) -> Any:
        """The result, with the images of an equal one before it. Results without images are returned as they are."""
        observation = result.observation if isinstance(result, Step) else result
        if not isinstance(observation, Observation) or not observation.images:
            return result
        images = self._images.setdefault(sample, {}).setdefault(digest, observation.images)
        observation = replace(observation, images=images)
        return replace(result, observation=observation) if isinstance(result, Step) else observation

    def keep(self, samples: Set[str]) -> None:
        """Forgets the images of all other samples."""
        for sample in self._images.keys() - samples:
            del self._images[sample]
