"""Boxes in an image -> masks of the objects in them, by a SAM model of transformers (Kirillov et al. 2023, arXiv 2304.02643)."""

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

KIND = "sam"  # the `model_type` of its config
BATCH = 4  # images that are encoded at once; each takes about 1 GB with the largest model
UNUSABLE = (OSError, ValueError, ImportError, RuntimeError, SafetensorError)


class Segmenter:
    """A SAM model of a hub id or a folder, whose weights are loaded on first use."""

    def __init__(self, source: str, *, device: str | None = None) -> None:
        """`device`: by default the GPU, where there is one. Raises ConfigError for a source that is not a SAM model."""
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
                    f"{source}: not a SAM model (its model_type is {kind}); use one such as facebook/sam-vit-huge"
                ]
            )

    def masks(
        self, prompts: Sequence[tuple[Image, Sequence[Box]]]
    ) -> Iterator[NDArray[np.bool_]]:  # [boxes, height, width]
        """For each image with one or more boxes, in pixels, the masks of the boxes: one mask a box
        (`multimask_output=False`)."""
        for start in range(0, len(prompts), BATCH):
            yield from self._batch(prompts[start : start + BATCH])

    @torch.inference_mode()
    def _batch(self, prompts: Sequence[tuple[Image, Sequence[Box]]]) -> list[NDArray[np.bool_]]:
        model, processor = self._loaded
        pixels = processor(images=[image for image, _ in prompts], return_tensors="pt")
        encoded = model.get_image_embeddings(pixels["pixel_values"].to(self.device))
        sizes = zip(pixels["original_sizes"], pixels["reshaped_input_sizes"], strict=True)
        all_masks: list[NDArray[np.bool_]] = []
        for k, ((_, boxes), (size, resized)) in enumerate(zip(prompts, sizes, strict=True)):
            scale = (resized / size).flip(0).repeat(2)  # of x1, y1, x2, y2; sizes: height, width
            output = model(
                image_embeddings=encoded[k : k + 1],
                input_boxes=(torch.tensor([boxes]) * scale).to(self.device),
                multimask_output=False,
            )
            logits = output.pred_masks.cpu()
            masks = processor.post_process_masks(logits, size[None], resized[None])[0]
            all_masks.append(masks[:, 0].numpy())
        return all_masks

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        """The model and its processor. Raises ConfigError when one cannot be loaded completely."""
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
        """An error with the first line of transformers' message."""
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return ConfigError([f"{self.source}: no SAM model can be loaded from it: {reason}"])
