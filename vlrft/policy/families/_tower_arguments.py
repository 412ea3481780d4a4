"""Arguments of a vision tower's forward that transformers would compute on the device, waiting for it: positions, boundaries of
images and windows. They follow from the images' grids, which are known on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from vlrft.distributed.cuda_settings import to_device
from vlrft.policy.tower_attention import SEQUENCES, make_sequences, use_tower_attention

# of `transformers.vision_utils`
FUNCTIONS = (
    "get_vision_cu_seqlens",
    "get_vision_position_ids",
    "get_vision_window_index",
    "get_vision_interpolation_indices_and_weights",
)


@dataclass(frozen=True, kw_only=True)
class Tower:
    """A class of towers, and which arguments its forward would compute from the grids."""

    name: str  # transformers' class
    windows: bool = False  # some of its layers attend within windows
    interpolated: bool = False  # learned positions are interpolated by indices and weights
    grid_on_device: bool = False  # it indexes the grids by patches


def tower_arguments(
    tower: Any, kind: Tower, grids: Sequence[tuple[int, ...]], device: Any
) -> tuple[Int[Tensor, "images 3"], dict[str, Any]]:
    """The grids (time, height, width) of images, in patches, and further arguments of the tower's forward for them. Without
    such arguments, and with the grids on the device, for a tower of another kind, another release of transformers, and an
    attention other than sdpa: transformers then computes them itself."""
    functions = _vision_functions()
    grid = torch.tensor(grids)
    same = kind.name in {c.__name__ for c in type(tower).__mro__}
    if functions is None or not same or not use_tower_attention(tower.config):
        return grid.to(device), {}
    cu_seqlens, position_ids, window_index, interpolation = functions
    merge = tower.spatial_merge_size
    images = make_sequences(cu_seqlens(grid), device)
    sequences = {len(images.boundaries) - 1: images}
    arguments: dict[str, Any] = {
        "position_ids": to_device(position_ids(grid, merge), device),
        "cu_seqlens": images.boundaries,
        "max_seqlen": images.longest,
        SEQUENCES: sequences,
    }
    if kind.windows:
        index, ends = window_index(grid, merge, tower.window_size, tower.patch_size)
        windows = make_sequences(ends, device)
        sequences[len(ends) - 1] = windows
        arguments["window_index"] = to_device(index, device)
        arguments["cu_window_seqlens"] = windows.boundaries
        arguments["max_window_seqlen"] = windows.longest
    if kind.interpolated:
        indices, weights = interpolation(
            grid,
            num_grid_per_side=tower.num_grid_per_side,
            mode=tower.interpolation_mode,
            align_corners=tower.interpolation_align_corners,
            spatial_merge_size=merge,
        )
        arguments["interp_indices"] = to_device(indices, device)
        arguments["interp_weights"] = to_device(weights, device)
    return to_device(grid, device) if kind.grid_on_device else grid, arguments


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
