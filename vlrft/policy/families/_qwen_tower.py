"""Arguments of the forward of Qwen2-VL's and Qwen2.5-VL's towers that transformers would compute on the device, waiting for it:
positions, boundaries of images and windows. They follow from the images' grids, which are known on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from inspect import signature
from typing import Any

import torch

from vlrft.distributed.cuda_settings import to_device
from vlrft.policy.tower_attention import SEQUENCES, make_sequences, use_tower_attention

# transformers' towers -> whether they have windows; the functions are in `transformers.vision_utils`
TOWERS = {
    "Qwen2VisionTransformerPretrainedModel": False,
    "Qwen2_5_VisionTransformerPretrainedModel": True,
}
FUNCTIONS = ("get_vision_cu_seqlens", "get_vision_position_ids", "get_vision_window_index")


def tower_arguments(tower: Any, grids: Sequence[tuple[int, ...]], device: Any) -> dict[str, Any]:
    """Further arguments of the tower's forward for images of these grids (time, height, width), in patches. Empty for a
    tower of another kind, another release of transformers, and an attention other than sdpa: transformers then computes
    them itself."""
    functions = _vision_functions()
    kinds = [c.__name__ for c in type(tower).__mro__ if c.__name__ in TOWERS]
    if functions is None or not kinds or not use_tower_attention(tower.config):
        return {}
    cu_seqlens, position_ids, window_index = functions
    grid = torch.tensor(grids)
    images = make_sequences(cu_seqlens(grid), device)
    sequences = {len(images.boundaries) - 1: images}
    arguments: dict[str, Any] = {
        "position_ids": to_device(position_ids(grid, tower.spatial_merge_size), device),
        "cu_seqlens": images.boundaries,
        "max_seqlen": images.longest,
        SEQUENCES: sequences,
    }
    if TOWERS[kinds[0]]:
        index, ends = window_index(
            grid, tower.spatial_merge_size, tower.window_size, tower.patch_size
        )
        windows = make_sequences(ends, device)
        sequences[len(ends) - 1] = windows
        arguments["window_index"] = to_device(index, device)
        arguments["cu_window_seqlens"] = windows.boundaries
        arguments["max_window_seqlen"] = windows.longest
    return arguments


@cache
def _vision_functions() -> tuple[Any, ...] | None:
    """transformers' functions of `FUNCTIONS`; None in a release without them, whose towers compute everything themselves."""
    try:
        from transformers import vision_utils
    except ImportError:
        return None
    functions = [getattr(vision_utils, name, None) for name in FUNCTIONS]
    if any(f is None or "kwargs" not in signature(f).parameters for f in functions):
        return None  # a tower takes no results of functions without this parameter
    return tuple(functions)
