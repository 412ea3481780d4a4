"""What is trained: a model that is loaded or made, whole or by adapters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from vlrft.config.strict import Positive, Share, strict

# A family is a file of policy/families; the files are listed here, not imported.
_FAMILY_FILES = (Path(__file__).parents[1] / "policy" / "families").glob("[!_]*.py")
if TYPE_CHECKING:
    FamilyName = str
else:
    FamilyName = Literal[tuple(sorted(file.stem for file in _FAMILY_FILES))]


@strict
class BuildConfig:
    """A small real model made from a config, for runs without a download."""

    family: FamilyName = "qwen2_vl"
    hidden_size: Positive = 128
    layers: Positive = 3
    heads: Positive = 4
    kv_heads: Positive = 2
    intermediate_size: Positive = 256
    vision_width: Positive = 96
    vision_layers: Positive = 3
    vision_heads: Positive = 4
    vocab_size: Positive = 400
    """Upper bound; byte-level BPE trained on the task's own text, digits one token each."""
    init_scale: Annotated[float, Field(gt=0)] = 4.0
    """Factor on every initial matrix but the patch embedding: small models start to learn at 4 (std 0.08)."""


@strict
class LoraConfig:
    """Low-rank adapters (peft)."""

    rank: Positive = 16
    alpha: Positive = 32
    dropout: Share = 0.0
    target_modules: str | tuple[str, ...] = "all-linear"


@strict
class PolicyConfig:
    """The model that is trained: `model` (a hub id or a folder) or `build`, not both."""

    model: str | None = None
    build: BuildConfig | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float64"] = "auto"
    """auto: bfloat16 on a GPU that has it, float32 elsewhere."""
    attention: Literal["sdpa", "eager", "flash_attention_2", "flex_attention"] = "sdpa"
    """flash_attention_2: of the vision tower, the rest sdpa; flex_attention (GPU): packed rows without a mask of their
    length squared."""
    activation_checkpointing: bool = False
    freeze: tuple[str, ...] = ()
    """`vision`, `projector`, `language`, or a pattern of parameter names such as `*.layers.0.*`."""
    lora: LoraConfig | None = None
    min_pixels: Positive | None = None
    max_pixels: Positive | None = None
    """Bounds of the image processor; the model's own unless given."""
    trust_remote_code: bool = False
