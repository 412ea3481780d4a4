"""The learning-rate schedules: pure functions of the optimiser step."""

from __future__ import annotations

import math

from vlrft.config import UpdateConfig


def learning_rate(config: UpdateConfig, step: int, total: int) -> float:
    """The learning rate of optimiser step `step` (from 0): linear warm-up, then constant or a decay to
    `min_lr_ratio · lr` at `total`."""
    if step < config.warmup_steps:
        return config.lr * (step + 1) / config.warmup_steps
    done = (step - config.warmup_steps) / max(total - config.warmup_steps, 1)
    if config.schedule == "constant":
        return config.lr
    left = 1 - done if config.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * done))
    return config.lr * (config.min_lr_ratio + (1 - config.min_lr_ratio) * left)
