"""A model with its chat: log-probs, references and saved weights."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from vlrft.policy.backbone import Backbone
from vlrft.policy.chat import Chat
from vlrft.policy.families import vision_family
from vlrft.policy.rank_sync import RankSync, Unsynchronised
from vlrft.policy.scorer import Scorer
from vlrft.policy.trainable import merge_adapters, without_adapters
from vlrft.schema.errors import ConfigError


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
        vision = vision_family(without_adapters(self.model))
        trained = vision is not None and any(map(vision.is_vision, self.trained_names))
        return Backbone(self.model, frozen_vision=not trained)

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

    def cache_banned_tokens(self) -> None:
        """Computes `banned` now. Call it before the weights are sharded: the head has no shape afterwards."""
        _ = self.banned

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

    def trained_weights(self) -> dict[str, Tensor]:
        """The tensors that training changes, by name (detached, shared)."""
        named = dict(self.model.named_parameters())
        return {name: named[name].detach() for name in self.trained_names}

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """All parameters by the model's names (detached, shared), LoRA merged into a copy. Nothing is computed before
        the first one is read."""
        model = merge_adapters(self.model) if self.has_lora else self.model
        for name, parameter in model.named_parameters():
            yield name, parameter.detach()

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Copies the tensors that `trained_weights` gave. Raises ConfigError when the names differ."""
        own = self.trained_weights()
        if own.keys() != weights.keys():
            odd = sorted(own.keys() ^ weights.keys())
            raise ConfigError(
                [
                    f"{odd[0]}: in the checkpoint or in the policy, not in both; policy.* must be as it was"
                ]
            )
        for name, tensor in own.items():
            tensor.copy_(weights[name])

    def move_towards(self, other: Policy, share: float) -> None:
        """Goes the given share of the way to another policy of the same shape."""
        goal = other.trained_weights()
        for name, tensor in self.trained_weights().items():
            tensor.lerp_(goal[name], share)

    def save(self, path: Path) -> None:
        """A folder that AutoModelForImageTextToText (text: AutoModelForCausalLM) and AutoProcessor (AutoTokenizer)
        load. LoRA is merged in; the adapters are besides in `path/adapter`."""
        path.mkdir(parents=True, exist_ok=True)
        if self.device.type == "cpu":  # transformers asks DeepSpeed, which looks for GPUs aloud
            os.environ.setdefault("DS_ACCELERATOR", "cpu")
        model = merge_adapters(self.model) if self.has_lora else self.model
        model.save_pretrained(path)
        self.chat.save(path)
        if self.has_lora:
            self.model.save_pretrained(path / "adapter", save_embedding_layers=False)
