"""Loads a policy from a hub id or a folder, or builds a small one, with the frozen parts and adapters of the config."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn

from vlrft.config import PolicyConfig
from vlrft.distributed.device import pick_dtype
from vlrft.policy.adapter_files import Adapter
from vlrft.policy.adapters import base_of, load_adapter
from vlrft.policy.attention_of_parts import attention_of_parts, refusing_flex
from vlrft.policy.chat import Chat
from vlrft.policy.families import TakesVideos, VisionFamily, vision_family
from vlrft.policy.finite import nonfinite_names
from vlrft.policy.meta_model import model_without_weights
from vlrft.policy.model_files import (
    check_resize,
    reading,
    refuse_damage,
    refuse_misspelled,
    try_chat,
)
from vlrft.policy.policy import Policy
from vlrft.policy.pretrained import load_model, load_tokenizer, stored_dtype
from vlrft.policy.quantization import NF4
from vlrft.policy.tiny import build_model, build_tokenizer
from vlrft.policy.trainable import add_lora, freeze, without_adapters
from vlrft.schema.changed_settings import changed_settings
from vlrft.schema.errors import ConfigError
from vlrft.vision.processor import load_image_processor, load_video_processor, prepare_torchvision

# settings that a policy without a vision model does not use
BOUNDS = ("min_pixels", "max_pixels", "max_prompt_pixels")
VISION_SIZES = ("vision_width", "vision_layers", "vision_heads")


def load_policy(
    config: PolicyConfig, *, corpus: Iterable[str] = (), seed: int = 0, device: str = "cpu"
) -> Policy:
    """The policy in training mode. A built policy's tokenizer is trained on `corpus`, its weights are drawn with `seed`.

    Raises ConfigError for a model that is missing, incomplete or not supported, and for unknown names to freeze.
    """
    prepare_torchvision()
    _refuse_misspelled_places(config)
    config, adapter = base_of(config)
    if (config.model is None) == (config.build is None):
        raise ConfigError(["policy: set either model (a hub id or a folder) or build"])
    attention = attention_of_parts(config, device)
    if config.build is not None:
        dtype = pick_dtype(config.dtype, device)
        tokenizer = build_tokenizer(config.build, corpus)
        with refusing_flex():
            model: Any = build_model(config.build, tokenizer, seed, attention)
        model = model.to(dtype)
        vision = vision_family(model)
        processor = None if vision is None else vision.build_processor()
        videos = _video_builder(vision, processor)
    else:
        source = os.path.expanduser(str(config.model))
        trust, revision = config.trust_remote_code, None if adapter is None else adapter.revision
        refuse_damage(source)
        stored = stored_dtype(source, trust_remote_code=trust, revision=revision)
        with refusing_flex():
            model = load_model(
                source,
                dtype=pick_dtype(config.dtype, device, stored),
                attention=attention,
                trust_remote_code=trust,
                revision=revision,
                packed_on=device if config.quantization == NF4 else None,
            )
        _refuse_nonfinite(model, source)
        vision = vision_family(model)
        tokenizer, processor = _read_tokenizer_and_processor(source, config, adapter, vision)
        videos = partial(load_video_processor, source, trust_remote_code=trust, revision=revision)
    chat = _tried_chat(model, tokenizer, processor, vision, config, videos)
    model = model.to(device)
    if config.lora is not None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = add_lora(model, config.lora)
    if adapter is not None:
        model = load_adapter(model, adapter)
    freeze(model, config.freeze)
    if config.checkpoints_activations:
        checkpoint_activations(without_adapters(model))
    model.train()
    return Policy(model, chat, tf32=config.tf32)


def load_chat(config: PolicyConfig) -> Chat:
    """The chat of the policy that `load_policy` would load from a hub id or a folder; its weights are not read.

    Raises ConfigError for a model that is missing, and for a tokenizer or an image processor that cannot be used.
    """
    prepare_torchvision()
    _refuse_misspelled_places(config)
    config, adapter = base_of(config)
    source = os.path.expanduser(str(config.model))
    with torch.device("meta"), reading(source):
        model = model_without_weights(source, config.trust_remote_code)
    vision = vision_family(model)
    tokenizer, processor = _read_tokenizer_and_processor(source, config, adapter, vision)
    revision = None if adapter is None else adapter.revision
    videos = partial(
        load_video_processor,
        source,
        trust_remote_code=config.trust_remote_code,
        revision=revision,
    )
    return _tried_chat(model, tokenizer, processor, vision, config, videos)


def vision_warning(config: PolicyConfig, chat: Chat) -> str | None:
    """A warning where the config bounds pixels, or gives a vision model sizes, and the policy takes text only; None elsewhere."""
    keys = [f"policy.{key}" for key in BOUNDS if getattr(config, key) is not None]
    if config.build is not None:
        changed = changed_settings(config.build)
        keys += [f"policy.build.{key}" for key in VISION_SIZES if key in changed]
    if chat.pixels is not None or not keys:
        return None
    return f"the policy takes text only: {', '.join(keys)} {'have' if len(keys) > 1 else 'has'} no effect"


def _refuse_misspelled_places(config: PolicyConfig) -> None:
    for key in ("model", "adapter"):
        if getattr(config, key) is not None:
            refuse_misspelled(f"policy.{key}", getattr(config, key))


def _read_tokenizer_and_processor(
    source: str, config: PolicyConfig, adapter: Adapter | None, vision: VisionFamily | None
) -> tuple[Any, Any]:
    """The tokenizer, which an adapter may bring along, and the image processor; None for a text-only model."""
    trust, revision = config.trust_remote_code, None if adapter is None else adapter.revision
    if adapter is not None and adapter.has_tokenizer:
        tokenizer = load_tokenizer(adapter.source, trust_remote_code=trust)
    else:
        tokenizer = load_tokenizer(source, trust_remote_code=trust, revision=revision)
    if vision is None:
        return tokenizer, None
    with reading(source, "its image processor cannot be loaded"):
        return tokenizer, load_image_processor(source, trust_remote_code=trust, revision=revision)


def _tried_chat(
    model: Any,
    tokenizer: Any,
    processor: Any,
    vision: VisionFamily | None,
    config: PolicyConfig,
    videos: Callable[[], Any] | None,
) -> Chat:
    """The chat with the config's bounds of pixels; that of a model that was not built here has rendered a question."""
    problem = "its tokenizer or its image processor cannot be used"
    with nullcontext() if config.model is None else reading(config.model, problem):
        if vision is not None:
            vision.set_pixel_bounds(processor, config.min_pixels, config.max_pixels)
        chat = _chat(model, tokenizer, processor, vision, config, videos)
    if config.model is not None:
        try_chat(chat, config.model)
    else:
        check_resize(chat, "policy.build")
    return chat


def _refuse_nonfinite(model: nn.Module, source: str) -> None:
    """Raises ConfigError, naming a weight, for a model with NaN or infinite weights."""
    names = nonfinite_names(model.named_parameters())
    if names:
        raise ConfigError(
            [
                f"policy.model={source}: {len(names)} of its weights hold NaN or infinite numbers, such as {names[0]}; "
                "use an earlier checkpoint, or another copy of the model"
            ]
        )


def checkpoint_activations(model: Any) -> None:
    """Makes the layers recompute their activations in the backward pass. For training only: such layers drop a KV cache."""
    enable = getattr(model, "activation_checkpointing_enable", None)
    (enable or model.gradient_checkpointing_enable)()


def _video_builder(vision: VisionFamily | None, processor: Any) -> Callable[[], Any] | None:
    """Builds the video processor of a built policy; None where its family takes no videos."""
    if not isinstance(vision, TakesVideos):
        return None
    return partial(vision.build_video_processor, processor)


def _chat(
    model: Any,
    tokenizer: Any,
    processor: Any,
    vision: VisionFamily | None,
    policy: PolicyConfig,
    videos: Callable[[], Any] | None,
) -> Chat:
    from transformers import PROCESSOR_MAPPING

    config = model.config
    classes: Any = PROCESSOR_MAPPING
    has_class = processor is not None and type(config) in classes
    ends = getattr(model.generation_config, "eos_token_id", None)
    return Chat(
        tokenizer,
        processor,
        vision,
        image_token_id=None if vision is None else config.image_token_id,
        vocab_size=config.get_text_config().vocab_size,
        end_ids=ends if isinstance(ends, list) else [] if ends is None else [ends],
        processor_class=classes[type(config)].__name__ if has_class else None,
        video_token_id=vision.video_token_id(model) if isinstance(vision, TakesVideos) else None,
        video_processor=videos,
        frame_bounds=(policy.min_pixels, policy.max_pixels),
        max_prompt_pixels=policy.max_prompt_pixels,
    )
