"""Rotary positions of prompts, which depend on where the tokens of images and videos are."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from vlrft.policy.families import TakesVideos, VisionFamily
from vlrft.schema import DataError, Prompt

KEPT_LAYOUTS = 1024  # prompt layouts whose positions are kept
# Positions are computed in multiples of this length, so that longer rows rarely need new ones.
SPARE_POSITIONS = 64


class PromptPositions:
    """The positions that a model's family gives a prompt. Axes: A rotary axes (1 for text-only models), L positions."""

    def __init__(self, vision: VisionFamily | None, causal: Any) -> None:
        """`vision`: None for text-only models. `causal`: the transformers causal model."""
        self.vision = vision
        self.place_ids = _place_ids(vision, causal)
        self._causal = causal
        self._layouts: OrderedDict[object, Int[Tensor, "A L"]] = OrderedDict()

    def __call__(self, prompt: Prompt, more: int, name: str) -> Int[Tensor, "A L"]:
        """Rotary positions of a prompt and `more` tokens of text after it (CPU).

        Raises DataError, with `name` in the message, when the prompt's image tokens and its images' features differ in
        number.
        """
        length = len(prompt.ids) + more
        if self.vision is None:
            return torch.arange(length)[None]
        places = np.isin(np.array(prompt.ids), self.place_ids)
        layout = (
            len(prompt.ids),
            places.tobytes(),
            tuple((i.grid, i.video and i.video.interval) for i in prompt.images),
        )
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


def _place_ids(vision: VisionFamily | None, causal: Any) -> list[int]:
    """The ids that a prompt has once for each feature, of images and then of videos."""
    if vision is None:
        return [-1]
    ids: list[int] = [causal.config.image_token_id]
    if isinstance(vision, TakesVideos):
        ids.append(vision.video_token_id(causal))
    return list(dict.fromkeys(ids))


def _check_places(places: int, prompt: Prompt, name: str) -> None:
    features = sum(image.tokens for image in prompt.images)
    if places != features:
        raise DataError(
            f"{name}: {places} image tokens in the prompt, but its {len(prompt.images)} images have "
            f"{features} features; render it with this policy's chat"
        )
