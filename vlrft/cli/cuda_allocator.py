"""The allocator of GPU memory, which torch reads from the environment when a GPU is first used. No torch."""

from __future__ import annotations

import os

ALLOCATOR = "PYTORCH_ALLOC_CONF"
NAMES = (ALLOCATOR, "PYTORCH_CUDA_ALLOC_CONF")  # the second one: its name before torch 2.9


def choose_allocator() -> None:
    """Lets the segments of GPU memory grow, so that packed rows of ever different lengths do not fragment it. A choice of the
    user's, in either variable, stays."""
    if not any(name in os.environ for name in NAMES):
        os.environ[ALLOCATOR] = "expandable_segments:True"
