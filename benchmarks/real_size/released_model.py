"""A released model as its small files on the hub describe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Released:
    """A released model. `whole`: its weights are made and run here; else it exists on the meta device only."""

    name: str
    config: Mapping[str, Any]
    generation: Mapping[str, Any]
    processor: str
    image_processor: Mapping[str, Any]
    parameters: int | None  # as published; None: unknown
    whole: bool = False
    qwen_tokenizer: bool = True  # else none is at hand, and plans are of the longest prompts
