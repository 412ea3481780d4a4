"""Images as Qwen2-VL takes them, and with a few values or methods changed the families after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from PIL.Image import Image
from torch import Tensor, nn

from vlrft.distributed.cuda_settings import to_device
from vlrft.memory.shapes import VisionShape
from vlrft.policy.families import ServedImage
from vlrft.policy.families._qwen import IMAGE_PAD, VISION_END, VISION_START
from vlrft.policy.families._qwen_video import QwenVideo
from vlrft.policy.families._tower_arguments import Tower, tower_arguments
from vlrft.policy.image_features import ImageFeatures
from vlrft.schema import Pixels, Resize
from vlrft.vision.markup import MARKUP
from vlrft.vision.processor import prepare_torchvision

MERGE = 2  # side of an image token in patches


class QwenVision(QwenVideo):
    """Features replace the embeddings of the image tokens, positions have three axes (time, height, width), and the vision
    model merges patches 2 by 2."""

    axes = 3
    image_token = IMAGE_PAD
    image_text = f"{VISION_START}{IMAGE_PAD}{VISION_END}"
    markup: tuple[str, ...] = MARKUP
    unread: tuple[str, ...] = ()
    # values by which families differ
    processor = "Qwen2VLImageProcessor"  # transformers' class
    patch = 14  # side in pixels
    bounded_frames = 1  # the processor's bounds are areas times this number of frames
    released_max_pixels = 12_845_056  # in the released models' preprocessor_config.json
    enlarges_sides = False  # the processor first enlarges an image with a side below a token's
    tower = Tower(name="Qwen2VisionTransformerPretrainedModel")

    def build_processor(self) -> Any:
        import transformers

        suffix = "Pil" if prepare_torchvision().backend == "pil" else ""
        return getattr(transformers, self.processor + suffix)(patch_size=self.patch)

    def set_pixel_bounds(self, processor: Any, low: int | None, high: int | None) -> None:
        size = dict(processor.size)
        if low is not None:
            size["shortest_edge"] = low * self.bounded_frames  # areas, despite these names
        if high is not None:
            size["longest_edge"] = high * self.bounded_frames
        processor.size = type(processor.size)(**size)

    def resize(self, processor: Any) -> Resize | None:
        settings = ("size", "patch_size", "merge_size")
        if not all(hasattr(processor, name) for name in settings):
            return None
        low, high = (processor.size.get(name) for name in ("shortest_edge", "longest_edge"))
        if low is None or high is None:
            return None
        return Resize(
            min_pixels=-(-low // self.bounded_frames),
            max_pixels=high // self.bounded_frames,
            factor=processor.patch_size * processor.merge_size,
            enlarge_sides=self.enlarges_sides,
        )

    def process(self, processor: Any, image: Image, key: str) -> Pixels:
        inputs = processor(images=[image], return_tensors="pt")
        time, height, width = inputs["image_grid_thw"][0].tolist()
        return Pixels(
            key=key,
            tokens=time * height * width // processor.merge_size**2,
            grid=(time, height, width),
            values=inputs["pixel_values"],
        )

    def vision_tower(self, model: Any) -> nn.Module:
        tower: nn.Module = model.base_model.visual
        return tower

    def tower_layers(self, model: Any) -> nn.Module:
        layers: nn.Module = model.base_model.visual.blocks
        return layers

    def is_vision(self, parameter: str) -> bool:
        return "visual." in parameter

    def is_projector(self, parameter: str) -> bool:
        return ".merger." in parameter and self.is_vision(parameter)

    def encode(self, model: Any, images: Sequence[Pixels], device: Any) -> ImageFeatures:
        values = to_device(torch.cat([image.values for image in images]), device)
        grids = [image.grid for image in images]
        grid, arguments = tower_arguments(model.base_model.visual, self.tower, grids, device)
        encoded = model.base_model.get_image_features(values, grid, return_dict=True, **arguments)
        return self.features(encoded)

    def features(self, encoded: Any) -> ImageFeatures:
        """Of the output of the model's `get_image_features`."""
        return ImageFeatures(embeds=torch.cat(tuple(encoded.pooler_output)))

    def decoder_arguments(
        self, features: ImageFeatures, places: Bool[Tensor, "B L"]
    ) -> dict[str, Any]:
        return {}

    def positions(
        self, model: Any, places: Bool[np.ndarray, " L"], images: Sequence[Pixels]
    ) -> Int[Tensor, "A L"]:
        """The positions that the model's `get_rope_index` computes."""
        kinds = _kinds(torch.from_numpy(places)[None], images)
        ids = torch.where(kinds > 0, model.config.image_token_id, 0).long()
        stills, videos = _by_kind(images)
        grids: dict[str, Any] = {"image_grid_thw": _grids(stills) if stills else None}
        if videos:
            grids |= {"video_grid_thw": _grids(videos), **self.timing(videos)}
        positions: Tensor
        positions, _ = model.base_model.get_rope_index(ids, mm_token_type_ids=kinds, **grids)
        return positions[:, 0]

    def model_inputs(
        self, places: Bool[Tensor, "B L"], images: Sequence[Pixels]
    ) -> dict[str, Tensor]:
        stills, videos = _by_kind(images)
        inputs = {"mm_token_type_ids": _kinds(places, images)}
        if stills:
            inputs["image_grid_thw"] = _grids(stills)
            inputs["pixel_values"] = torch.cat([image.values for image in stills])
        if videos:
            inputs["video_grid_thw"] = _grids(videos)
            inputs["pixel_values_videos"] = torch.cat([video.values for video in videos])
            inputs |= self.timing(videos)
        return inputs

    def timing(self, videos: Sequence[Pixels]) -> dict[str, Tensor]:
        """The arguments of transformers' forward for the times of videos; none where the text says them or none matter."""
        return {}

    def serve(self, image: Pixels) -> ServedImage:
        """See `ServedImages`."""
        return ServedImage(
            rows={"pixel_values": image.values},
            values={"image_grid_thw": torch.tensor(image.grid)},
        )

    def tower_shape(self, model: Any) -> VisionShape:
        vision = model.config.vision_config
        gated = hasattr(vision, "out_hidden_size")  # as in Qwen2.5-VL
        width = vision.hidden_size if gated else vision.embed_dim
        temporal = getattr(vision, "temporal_patch_size", 2)
        return VisionShape(
            width=width,
            layers=vision.depth,
            heads=vision.num_heads,
            inner=vision.intermediate_size if gated else int(width * vision.mlp_ratio),
            gated=gated,
            activated=3 if gated else 2,  # gate, its activation and up; input and its sigmoid
            values=vision.in_channels * temporal * vision.patch_size**2,
            merge=vision.spatial_merge_size**2,
            projected=(5 if gated else 4) * width,  # an RMS norm saves its output too
        )

    def most_patches(self, tokens: int, pixels: int | None) -> int:
        return min(tokens * MERGE**2, (pixels or self.released_max_pixels) // self.patch**2)


def _by_kind(images: Sequence[Pixels]) -> tuple[list[Pixels], list[Pixels]]:
    """The images and the videos."""
    return [i for i in images if i.video is None], [i for i in images if i.video is not None]


def _grids(images: Sequence[Pixels]) -> Int[Tensor, "images 3"]:
    return torch.tensor([image.grid for image in images])


def _kinds(places: Bool[Tensor, "B L"], images: Sequence[Pixels]) -> Int[Tensor, "B L"]:
    """transformers' kind of each token: 0 text, 1 image, 2 video."""
    kinds = places.int()
    own = [1 if image.video is None else 2 for image in images]
    tokens = [image.tokens for image in images]
    if 2 in own:
        kinds[places] = torch.tensor(own, dtype=kinds.dtype).repeat_interleave(torch.tensor(tokens))
    return kinds
