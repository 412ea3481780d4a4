"""A SAM model of random weights, small enough for a test, with its processor."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch

SIDE = 64  # pixels of the model's picture, 16 patches


@cache
def tiny_sam() -> tuple[Any, Any]:
    """The model and its processor, of transformers."""
    from transformers import SamConfig, SamImageProcessorPil, SamModel, SamProcessor

    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "mlp_dim": 16}
    sizes = {"image_size": SIDE, "patch_size": 16}
    vision = {"output_channels": 16, "window_size": 2, "global_attn_indexes": [0]}
    config = SamConfig(
        vision_config={**small, **sizes, **vision, "num_pos_feats": 8},
        prompt_encoder_config={"hidden_size": 16, **sizes, "mask_input_channels": 4},
        mask_decoder_config={**small, "iou_head_hidden_dim": 16},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = SamModel(config).eval()
    processor = SamProcessor(
        SamImageProcessorPil(
            size={"longest_edge": SIDE},
            pad_size={"height": SIDE, "width": SIDE},
            mask_size={"longest_edge": SIDE // 4},
            mask_pad_size={"height": SIDE // 4, "width": SIDE // 4},
        )
    )
    return model, processor


def save(folder: Path) -> str:
    """Saves the model as on the hub; returns the folder."""
    model, processor = tiny_sam()
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return str(folder)


@torch.no_grad()
def masks_of(image: Any, boxes: list[tuple[float, ...]]) -> Any:
    """The masks [boxes, height, width] by transformers alone, one picture at a time."""
    model, processor = tiny_sam()
    inputs = processor(images=image, input_boxes=[list(map(list, boxes))], return_tensors="pt")
    inputs["input_boxes"] = inputs["input_boxes"].float()
    resizing = inputs["original_sizes"], inputs["reshaped_input_sizes"]
    output = model(
        pixel_values=inputs["pixel_values"],
        input_boxes=inputs["input_boxes"],
        multimask_output=False,
    )
    return processor.post_process_masks(output.pred_masks, *resizing)[0][:, 0].numpy()
