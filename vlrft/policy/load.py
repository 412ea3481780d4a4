"""A policy from a hub id, a folder or a build config: model, chat and what the config asks of them."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from vlrft.config import ConfigError, PolicyConfig
from vlrft.distributed.device import pick_dtype
from vlrft.policy.backbone import Backbone, sees
from vlrft.policy.chat import Chat
from vlrft.policy.logprobs import Scorer
from vlrft.policy.pretrained import load_model, load_tokenizer
from vlrft.policy.rank_sync import RankSync, Unsynchronised
from vlrft.policy.tiny import build_model, build_tokenizer
from vlrft.policy.trainable import add_lora, freeze, in_tower, merged
from vlrft.vision.processor import (
    bound_pixels,
    build_image_processor,
    load_image_processor,
    prepare_torchvision,
)

PARTS_ATTEND = {
    "flash_attention_2": {
        "": "sdpa",
        "text_config": "sdpa",
        "vision_config": "flash_attention_2",
    },
    "flex_attention": {
        "": "flex_attention",
        "text_config": "flex_attention",
        "vision_config": "sdpa",
    },
}


class Policy:
    """A model with its chat. `model` is a transformers causal model, or a peft model around one."""

    def __init__(
        self, model: Any, chat: Chat, *, adapters: bool = True, sharing: Policy | None = None
    ) -> None:
        """`adapters`: whether LoRA adapters, if there are any, take part. `sharing`: the policy of the same model."""
        self.model = model
        self.chat = chat
        self.adapters = adapters
        self.sharing = sharing
        self.rank_sync: RankSync = Unsynchronised()  # of sampling
        self.trained_names = tuple(n for n, p in model.named_parameters() if p.requires_grad)

    @property
    def device(self) -> torch.device:
        return self.backbone.device

    @property
    def dtype(self) -> torch.dtype:
        found: torch.dtype = next(self.model.parameters()).dtype
        return found

    @property
    def has_lora(self) -> bool:
        return hasattr(self.model, "peft_config")

    @property
    def backbone(self) -> Backbone:
        return self._own_backbone if self._wrapped is None else self._wrapped.backbone

    @property
    def scorer(self) -> Scorer:
        return self._own_scorer if self._wrapped is None else self._wrapped.scorer

    @cached_property
    def _own_backbone(self) -> Backbone:
        return Backbone(self.model, frozen_vision=not any(map(in_tower, self.trained_names)))

    @cached_property
    def _own_scorer(self) -> Scorer:
        return Scorer(self.model, self.backbone)

    @property
    def _wrapped(self) -> Policy | None:
        """The other policy of this model, where an engine has wrapped its scorer: then it serves both."""
        other = self.sharing
        return None if other is None or other.backbone.keeps_features else other

    @cached_property
    def banned(self) -> Bool[Tensor, " V"]:
        """True for the tokens that are never sampled and have no probability."""
        if self._wrapped is not None:
            return self._wrapped.banned
        vocab = self.backbone.head.weight.shape[0]
        flags = torch.zeros(vocab, dtype=torch.bool)
        flags[[i for i in self.chat.banned_ids if i < vocab]] = True
        return flags.to(self.device)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Within it the model's forward is this policy's: a LoRA reference shares its model, adapters off."""
        if self.has_lora and not self.adapters:
            with self.model.disable_adapter():
                yield
        else:
            yield

    def reference(self) -> Policy:
        """The present weights, frozen. With LoRA: the model without its adapters, which costs no memory."""
        if self.has_lora:
            reference = Policy(self.model, self.chat, adapters=False, sharing=self)
            reference.trained_names = ()
            return reference
        reference = Policy(copy.deepcopy(self.model), self.chat)
        reference.model.requires_grad_(False).eval().zero_grad(set_to_none=True)
        return reference

    def trained(self) -> dict[str, Tensor]:
        """The tensors that training changes, by name (detached, shared)."""
        named = dict(self.model.named_parameters())
        return {name: named[name].detach() for name in self.trained_names}

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Copies the tensors that `trained` gave. Raises ConfigError when the names differ."""
        own = self.trained()
        if own.keys() != weights.keys():
            odd = sorted(own.keys() ^ weights.keys())
            raise ConfigError(
                [
                    f"{odd[0]}: in the checkpoint or in the policy, not in both; policy.* must be as it was"
                ]
            )
        for name, tensor in own.items():
            tensor.copy_(weights[name])

    def approach(self, other: Policy, share: float) -> None:
        """Goes the given share of the way to another policy of the same shape."""
        goal = other.trained()
        for name, tensor in self.trained().items():
            tensor.lerp_(goal[name], share)

    def save(self, path: Path) -> None:
        """A folder that AutoModelForImageTextToText (text: AutoModelForCausalLM) and AutoProcessor (AutoTokenizer)
        load. LoRA is merged in; the adapters are besides in `path/adapter`."""
        path.mkdir(parents=True, exist_ok=True)
        if self.device.type == "cpu":  # transformers asks DeepSpeed, which looks for GPUs aloud
            os.environ.setdefault("DS_ACCELERATOR", "cpu")
        model = merged(self.model) if self.has_lora else self.model
        model.save_pretrained(path)
        self.chat.save(path)
        if self.has_lora:
            self.model.save_pretrained(path / "adapter", save_embedding_layers=False)


def load_policy(
    config: PolicyConfig, *, corpus: Iterable[str] = (), seed: int = 0, device: str = "cpu"
) -> Policy:
    """The policy in training mode. `corpus` and `seed` make a built policy's tokenizer and weights.

    Raises ConfigError for a config that cannot be had: no such model, no weights, an unknown name to freeze.
    """
    if (config.model is None) == (config.build is None):
        raise ConfigError(["policy: give one of model (a hub id or a folder) and build"])
    prepare_torchvision()
    dtype = pick_dtype(config.dtype, device)
    attention = _attention(config, device)
    if config.build is not None:
        tokenizer = build_tokenizer(corpus, config.build.vocab_size)
        try:
            model: Any = build_model(config.build, tokenizer, seed, attention).to(dtype)
        except ImportError as e:  # an attention whose package is missing
            reason = str(e).strip().splitlines()[0]
            raise ConfigError([f"policy.attention={config.attention}: {reason}"]) from None
        processor = build_image_processor() if sees(model) else None
    else:
        source = os.path.expanduser(str(config.model))
        trust = config.trust_remote_code
        model = load_model(source, dtype=dtype, attention=attention, trust_remote_code=trust)
        tokenizer = load_tokenizer(source, trust_remote_code=trust)
        processor = load_image_processor(source, trust_remote_code=trust) if sees(model) else None
    if processor is not None:
        bound_pixels(processor, config.min_pixels, config.max_pixels)
    chat = _chat(model, tokenizer, processor)
    model = model.to(device)
    if config.lora is not None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = add_lora(model, config.lora)
    freeze(model, config.freeze)
    if config.activation_checkpointing:
        checkpoint_activations(model.get_base_model() if config.lora else model)
    model.train()
    return Policy(model, chat)


def checkpoint_activations(model: Any) -> None:
    """Layers are recomputed in the backward pass. Only while training, and never with a cache: the layers drop it."""
    enable = getattr(model, "activation_checkpointing_enable", None)
    (enable or model.gradient_checkpointing_enable)()


def _attention(config: PolicyConfig, device: str) -> Any:
    """FlashAttention takes no block mask: it serves the vision tower, the packed decoder runs sdpa."""
    if config.attention == "flex_attention" and device == "cpu":
        raise ConfigError(["policy.attention: flex_attention cannot train on a CPU; use sdpa"])
    only_seeing = config.attention == "flash_attention_2"
    if only_seeing and config.build is not None and config.build.family == "qwen2":
        raise ConfigError(["policy.attention: flash_attention_2 is for vision towers; use sdpa"])
    return PARTS_ATTEND.get(config.attention, config.attention)


def _chat(model: nn.Module, tokenizer: Any, processor: Any) -> Chat:
    from transformers import PROCESSOR_MAPPING

    config: Any = model.config
    known: Any = PROCESSOR_MAPPING
    named = processor is not None and type(config) in known
    ends = getattr(model.generation_config, "eos_token_id", None)
    return Chat(
        tokenizer,
        processor,
        vocab_size=config.get_text_config().vocab_size,
        end_ids=ends if isinstance(ends, list) else [] if ends is None else [ends],
        image_token_id=config.image_token_id if processor is not None else None,
        processor_class=known[type(config)].__name__ if named else None,
    )
