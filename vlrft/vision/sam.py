"""Boxes in a picture -> masks of what they enclose, through a SAM model of transformers (Kirillov et al. 2023,
arXiv 2304.02643)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from safetensors import SafetensorError

from vlrft.schema.errors import ConfigError
from vlrft.vision.boxes import Box
from vlrft.vision.processor import load_image_processor, prepare_torchvision

KIND = "sam"  # what the model's config calls its architecture
BATCH = 4  # pictures that are encoded at once; each takes about 1 GB with the largest model
UNUSABLE = (OSError, ValueError, ImportError, RuntimeError, SafetensorError)


class Segmenter:
    """A SAM model of a hub id or a folder; its weights are loaded when they are first needed."""

    def __init__(self, source: str, *, device: str | None = None) -> None:
        """`device`: the GPU where there is one, unless given. Raises ConfigError for what is no SAM model."""
        prepare_torchvision()
        from transformers import AutoConfig

        self.source = os.path.expanduser(source)
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            kind = AutoConfig.from_pretrained(self.source).model_type
        except UNUSABLE as e:
            raise self._unusable(e) from None
        if kind != KIND:
            raise ConfigError(
                [
                    f"{source}: no SAM model, its kind is {kind}; use one such as facebook/sam-vit-huge"
                ]
            )

    def masks(
        self, asked: Sequence[tuple[Image, Sequence[Box]]]
    ) -> Iterator[NDArray[np.bool_]]:  # [boxes, height, width]
        """Of each picture the masks of its boxes, which are one or more and in its pixels: the single mask that the
        model gives a box (`multimask_output=False`)."""
        for start in range(0, len(asked), BATCH):
            yield from self._batch(asked[start : start + BATCH])

    @torch.inference_mode()
    def _batch(self, asked: Sequence[tuple[Image, Sequence[Box]]]) -> list[NDArray[np.bool_]]:
        model, processor = self._loaded
        pixels = processor(images=[image for image, _ in asked], return_tensors="pt")
        encoded = model.get_image_embeddings(pixels["pixel_values"].to(self.device))
        sizes = zip(pixels["original_sizes"], pixels["reshaped_input_sizes"], strict=True)
        found: list[NDArray[np.bool_]] = []
        for k, ((_, boxes), (size, seen)) in enumerate(zip(asked, sizes, strict=True)):
            scale = (seen / size).flip(0).repeat(2)  # of x1, y1, x2, y2; sizes are height, width
            said = model(
                image_embeddings=encoded[k : k + 1],
                input_boxes=(torch.tensor([boxes]) * scale).to(self.device),
                multimask_output=False,
            )
            logits = said.pred_masks.cpu()
            masks = processor.post_process_masks(logits, size[None], seen[None])[0]
            found.append(masks[:, 0].numpy())
        return found

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        """The model and its processor. Raises ConfigError when they cannot be loaded whole."""
        from transformers import SamModel, SamProcessor

        load: Any = SamModel.from_pretrained
        try:
            model, report = load(
                self.source, dtype=torch.float32, use_safetensors=True, output_loading_info=True
            )
            processor = SamProcessor(load_image_processor(self.source))
        except UNUSABLE as e:
            raise self._unusable(e) from None
        if missing := sorted(report["missing_keys"]):
            raise ConfigError(
                [f"{self.source}: {len(missing)} weights are missing, such as {missing[0]}"]
            )
        return model.to(self.device).eval(), processor

    def _unusable(self, error: Exception) -> ConfigError:
        """The first line of what transformers has to say."""
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return ConfigError([f"{self.source}: no SAM model can be loaded from it: {reason}"])
