"""Imports of torchvision and of image processors, which work in each of torchvision's three states.

- healthy: transformers chooses the image processor, which is torchvision's where the model has one;
- repaired: a CUDA build next to a CPU-only torch, whose import would fail and with it that of transformers' model classes,
  peft and TRL. It can be imported then, but its compiled operators are missing: images go through the PIL processor;
- absent: images go through the PIL processor. There is no video processor then, so videos are refused, and `AutoProcessor`
  fails for these models; vlrft loads the image processor and the tokenizer only.

The two processors' pixels differ by at most one of 256 levels.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch

# The libraries that declare torchvision's operators, up to 0.28 and from 0.29. Were one missing here, a healthy torchvision
# would be taken for broken, and its operators declared twice, which ends the process.
LIBRARIES = ("_C.so", "_C_stable.so")

State = Literal["healthy", "repaired", "absent"]


@dataclass(frozen=True, kw_only=True)
class Torchvision:
    """The state of torchvision. `declared` holds the operators of a repair, which exist as long as it does."""

    state: State
    declared: torch.library.Library | None = None

    @property
    def backend(self) -> Literal["pil"] | None:
        """The image processors' backend by transformers' name; None leaves the choice to transformers."""
        return None if self.state == "healthy" else "pil"


@cache
def prepare_torchvision() -> Torchvision:
    """Makes an installed torchvision importable; call it before transformers imports image code.

    torchvision registers fakes of `nms` and `qnms` at import and fails when its C++ library, which declares the two,
    needs CUDA libraries that are missing. Declaring their schemas first is enough for everything in pure Python.
    """
    if "torchvision" in sys.modules:
        return Torchvision(state="healthy")
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        return Torchvision(state="absent")
    if any(_loads(Path(spec.origin).with_name(name)) for name in LIBRARIES):
        return Torchvision(state="healthy")
    make: Any = torch.library.Library
    library = make("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return Torchvision(state="repaired", declared=library)


def _loads(library: Path) -> bool:
    operators: Any = torch.ops
    try:
        operators.load_library(str(library))
    except (ImportError, OSError):
        return False
    return True


def load_image_processor(
    source: str, *, trust_remote_code: bool = False, revision: str | None = None
) -> Any:
    """The image processor of a hub id or a folder, in any state of torchvision."""
    backend = prepare_torchvision().backend
    from transformers import AutoImageProcessor

    return AutoImageProcessor.from_pretrained(
        source, trust_remote_code=trust_remote_code, revision=revision, backend=backend
    )


def load_video_processor(
    source: str, *, trust_remote_code: bool = False, revision: str | None = None
) -> Any:
    """The video processor of a hub id or a folder. Raises ImportError without torchvision."""
    require_torchvision()
    from transformers import AutoVideoProcessor

    return bound_by_own_size(
        AutoVideoProcessor.from_pretrained(
            source, trust_remote_code=trust_remote_code, revision=revision
        )
    )


def require_torchvision() -> None:
    """Raises ImportError where torchvision is absent."""
    if prepare_torchvision().state == "absent":
        raise ImportError("torchvision is not installed")


def bound_by_own_size(processor: Any) -> Any:
    """The video processor, which has no further bound on frames unless its files say so: the choice of frames sets one.
    transformers warns where it is not said."""
    if getattr(processor, "cap_pixels_per_frame", False) is None:
        processor.cap_pixels_per_frame = False
    return processor
