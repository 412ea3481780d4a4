"""Model families: everything that depends on the kind of model, one file per family.

A file defines FAMILY, a `Family`, and its name is the value of `policy.build.family`; a new file is found automatically.
Names of modules that families share begin with an underscore. A text-only model needs a file only to build a small one:
any causal language model can be trained that `vlrft.policy.supported` does not refuse.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int
from PIL.Image import Image
from torch import Tensor, nn

from vlrft.config import BuildConfig
from vlrft.memory.shapes import VisionShape
from vlrft.policy.image_features import ImageFeatures
from vlrft.schema import Frames, Pixels, Resize, VideoText

EXPERTS = (
    "its decoder routes tokens to experts, and without a loss that balances their load, and the same routes in training as in "
    "sampling, it would be trained wrongly; use a dense model"
)
"""Why families refuse models with a mixture of experts."""


@runtime_checkable
class VisionFamily(Protocol):
    """The vision part of a family. `model` is transformers' causal model, never a peft model around it.

    Axes: A rotary axes, B rows, L positions, F features of images.
    """

    axes: int  # A
    image_token: str
    """A special token; a prompt has one for each feature of an image. A model's config may name another id."""
    image_text: str  # an image in a prompt without chat template; contains one image token
    markup: tuple[str, ...]
    """Special tokens that answers may contain, and their texts show; elsewhere in data they are plain text."""
    unread: tuple[str, ...]
    """Special tokens that answers may contain, and their texts leave out."""

    # --- the image processor ---

    def build_processor(self) -> Any:
        """The family's image processor with its defaults, with or without torchvision."""
        ...

    def set_pixel_bounds(self, processor: Any, low: int | None, high: int | None) -> None:
        """Sets the bounds of an image's area after resizing, in pixels; None leaves a bound unchanged."""
        ...

    def resize(self, processor: Any) -> Resize | None:
        """How the processor resizes images; None for a processor that does not resize like this family's."""
        ...

    def process(self, processor: Any, image: Image, key: str) -> Pixels:
        """The model's input for an RGB image. Raises ValueError for an image that the processor refuses."""
        ...

    # --- the model ---

    def vision_tower(self, model: Any) -> nn.Module: ...

    def tower_layers(self, model: Any) -> nn.Module:
        """The tower's transformer layers."""
        ...

    def is_vision(self, parameter: str) -> bool:
        """Whether a parameter of that name belongs to the vision model or its projector."""
        ...

    def is_projector(self, parameter: str) -> bool:
        """Whether it belongs to the projector, which maps the tower's output into the language model."""
        ...

    def encode(self, model: Any, images: Sequence[Pixels], device: Any) -> ImageFeatures:
        """The images' features, `Pixels.tokens` for each."""
        ...

    def decoder_arguments(
        self, features: ImageFeatures, places: Bool[Tensor, "B L"]
    ) -> dict[str, Any]:
        """Further arguments of the decoder's forward, in addition to embeddings, positions and mask. `places`: the image
        tokens; `features`: one for each of them, in order."""
        ...

    def positions(
        self, model: Any, places: Bool[np.ndarray, " L"], images: Sequence[Pixels]
    ) -> Int[Tensor, "A L"]:
        """Rotary positions of a row whose tokens of images and videos are at `places`, on the CPU."""
        ...

    def model_inputs(
        self, places: Bool[Tensor, "B L"], images: Sequence[Pixels]
    ) -> dict[str, Tensor]:
        """The arguments for images and videos of transformers' forward and `generate()`."""
        ...

    # --- the memory plan ---

    def tower_shape(self, model: Any) -> VisionShape:
        """The tower's sizes; the defaults for the rest."""
        ...

    def most_patches(self, tokens: int, pixels: int | None) -> int:
        """The most patches of an image of at most `tokens` tokens and `pixels` pixels (None: as released)."""
        ...


@runtime_checkable
class TakesVideos(Protocol):
    """A `VisionFamily` that takes videos, whose features come from `encode` as those of images do. Optional."""

    video_text: str
    """A video in a prompt without chat template."""
    video_place: str
    """The part of `video_text`, and of a chat template's text for a video, that `VideoText.text` replaces."""

    def video_token_id(self, model: Any) -> int:
        """The id that a prompt has once for each feature of a video. `model`: its config alone is read."""
        ...

    def build_video_processor(self, image_processor: Any) -> Any:
        """The family's video processor with its defaults, beside this image processor. Raises ImportError without
        torchvision."""
        ...

    def process_video(
        self, processor: Any, frames: Frames, bounds: tuple[int | None, int | None], key: str
    ) -> Pixels:
        """The model's input for a video. `bounds`: of the area of a frame, in pixels; None: those of the processor. Raises
        ValueError for a video that the processor refuses."""
        ...

    def measure_video(
        self, processor: Any, frames: Frames, bounds: tuple[int | None, int | None]
    ) -> tuple[int, VideoText]:
        """The tokens and the text of the video that `process_video` makes, from the number, the size and the times of its
        frames. Raises as it does."""
        ...


@dataclass(frozen=True, kw_only=True)
class ServedImage:
    """An image as vLLM's model of the family takes it, by the names of its arguments."""

    rows: dict[str, Tensor]  # joined with those of other images along their first axis
    values: dict[str, Tensor]  # stacked with those of other images; they stay on the CPU


@runtime_checkable
class ServedImages(Protocol):
    """A `VisionFamily` whose images vLLM takes as they are, each as one run of image tokens. Optional."""

    def serve(self, image: Pixels) -> ServedImage: ...


@dataclass(frozen=True, kw_only=True)
class Family:
    """A family: its vision part, and how a small model of it is built from a `BuildConfig`."""

    vision: VisionFamily | None  # None: text only
    model_class: str  # of transformers; a model of a subclass is of the family too
    model_config: Callable[[BuildConfig, Any], Any]  # sizes, tokenizer -> transformers config
    mistakes: Callable[[BuildConfig], list[str]]  # sizes that do not divide, a few words each
    build_tokenizer: Callable[[Iterable[str], int], Any]  # corpus, vocabulary -> tokenizer
    end_tokens: tuple[str, str]  # of a text, which also pads, and of a turn
    other_classes: Mapping[str, VisionFamily] = field(default_factory=dict[str, VisionFamily])
    """Classes of transformers whose models are of the family too -> their vision part."""
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    """Classes of models or of decoders that look alike and are not of the family -> why, in a few words."""
    unscaled: tuple[str, ...] = ()  # parts of names of the matrices that init_scale leaves alone
    attention_class: str | None = None
    """transformers' class of its attention layers, where they are Qwen2's: linear projections, and rotary positions in halves."""
    box_unit: str | None = None
    """The unit in which the released models write boxes by themselves, as option `boxes` of the packs names it; None: none
    that packs name."""


@cache
def all_families() -> Mapping[str, Family]:
    """Every family by the name of its file."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return {name: importlib.import_module(f"{__name__}.{name}").FAMILY for name in names}


def vision_families() -> dict[str, VisionFamily]:
    """The families that take images, by name."""
    return {name: f.vision for name, f in all_families().items() if f.vision is not None}


def shown_markup() -> frozenset[str]:
    """The special tokens that texts of answers show, of all families: a text-only policy may have been a vision model's."""
    return frozenset(token for family in vision_families().values() for token in family.markup)


def answer_markup() -> frozenset[str]:
    """The special tokens that answers may contain, of all families."""
    unread = (token for family in vision_families().values() for token in family.unread)
    return shown_markup().union(unread)


def vision_family(model: Any) -> VisionFamily | None:
    """The vision family of a transformers causal model; None for a model that no family fits, such as a text-only one."""
    family = model_family(model)
    if family is None:
        return None
    others = family.other_classes
    return next((others[name] for name in sorted(_classes(model) & others.keys())), family.vision)


def model_family(model: Any) -> Family | None:
    """The family with a vision part that a transformers causal model belongs to, by the names of its classes; None where it
    belongs to none."""
    if refusal(model) is not None:
        return None
    classes = _classes(model)
    for family in all_families().values():
        if family.vision is not None and classes & {family.model_class, *family.other_classes}:
            return family
    return None


def refusal(model: Any) -> str | None:
    """Why a family refuses the model, or its decoder, by name; None where none does."""
    classes = _classes(model) | _classes(model.get_decoder())
    reasons = {name: why for f in all_families().values() for name, why in f.refused.items()}
    return next((reasons[name] for name in sorted(classes & reasons.keys())), None)


def _classes(model: Any) -> set[str]:
    """Names of the model's classes; sharded models are of a subclass of transformers'."""
    return {kind.__name__ for kind in type(model).__mro__}
