"""A policy: a causal language model with its chat, its weights and its reference."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from vlrft.distributed.cuda_settings import float32_products
from vlrft.policy.adapter_files import FOLDER, HELD, MERGE
from vlrft.policy.backbone import Backbone
from vlrft.policy.chat import Chat
from vlrft.policy.families import model_family, vision_family
from vlrft.policy.merging import WrittenModel, write_model
from vlrft.policy.policy_weights import Gather, PolicyWeights
from vlrft.policy.quantization import NF4, is_packed
from vlrft.policy.rank_sync import RankSync, Unsynchronised
from vlrft.policy.scorer import Scorer, ScorerCall
from vlrft.policy.trainable import without_adapters
from vlrft.policy.weight_files import Write
from vlrft.schema.errors import ConfigError

HALF = (torch.bfloat16, torch.float16)


class Policy:
    """A model with its chat. `model` is a transformers causal model, or a peft model around one."""

    def __init__(
        self,
        model: Any,
        chat: Chat,
        *,
        adapters: bool = True,
        owner: Policy | None = None,
        tf32: bool | None = None,
    ) -> None:
        """`adapters`: whether LoRA adapters, if the model has any, are applied. `owner`: the policy whose model
        this policy shares, for a reference. `tf32`: as in a config."""
        self.model = model
        self.chat = chat
        self.adapters = adapters
        self.owner = owner
        self.tf32 = tf32
        self.rank_sync: RankSync = Unsynchronised()  # while sampling
        self.sharded_scorer: ScorerCall | None = None
        """The scorer of an engine that keeps the weights elsewhere, while `model` is without them."""
        self.float32_copies: dict[str, Tensor] = {}
        """Of trained half-precision weights, where they are kept for `move_towards`."""
        self.trained_names = tuple(n for n, p in model.named_parameters() if p.requires_grad)

    @property
    def device(self) -> torch.device:
        return self.backbone.device

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = next(self.model.parameters()).dtype
        return dtype

    @property
    def rounding_dtype(self) -> torch.dtype:
        """The dtype in which its log-probs are rounded: recurrent layers compute in float32 in a float64 model, too."""
        float64 = self.dtype == torch.float64
        return torch.float32 if float64 and self.backbone.recurrent_layers else self.dtype

    def float32_products(self) -> AbstractContextManager[None]:
        """A context with the precision of float32 products on a GPU that this policy computes with."""
        return float32_products(self.tf32, self.dtype, self.device.type)

    @property
    def quantization(self) -> str:
        """How the decoder's linear weights are held: `nf4`, or `none`."""
        return NF4 if any(map(is_packed, self.model.parameters())) else "none"

    @property
    def has_lora(self) -> bool:
        return hasattr(self.model, "peft_config")

    @property
    def box_unit(self) -> str | None:
        """The unit in which released models of its family write boxes; None where none is known."""
        family = model_family(without_adapters(self.model))
        return None if family is None else family.box_unit

    @property
    def backbone(self) -> Backbone:
        return self._new_backbone if self._wrapped_owner is None else self._wrapped_owner.backbone

    @property
    def scorer(self) -> ScorerCall:
        if self._wrapped_owner is not None:
            return self._wrapped_owner.scorer
        return self.sharded_scorer or self.own_scorer

    @cached_property
    def _new_backbone(self) -> Backbone:
        vision = vision_family(without_adapters(self.model))
        trained = vision is not None and any(map(vision.is_vision, self.trained_names))
        return Backbone(self.model, frozen_vision=not trained)

    @cached_property
    def own_scorer(self) -> Scorer:
        """The scorer over `model`."""
        return Scorer(self.model, self.backbone)

    @property
    def _wrapped_owner(self) -> Policy | None:
        """The owner of the model while an engine wraps its scorer, which then serves both policies; else None."""
        owner = self.owner
        return None if owner is None or owner.backbone.keeps_features else owner

    @cached_property
    def banned(self) -> Bool[Tensor, " V"]:
        """True for tokens that are never sampled and have probability 0."""
        if self._wrapped_owner is not None:
            return self._wrapped_owner.banned
        vocab = self.backbone.head.weight.shape[0]
        flags = torch.zeros(vocab, dtype=torch.bool)
        flags[[i for i in self.chat.banned_ids if i < vocab]] = True
        return flags.to(self.device)

    def cache_banned_tokens(self) -> None:
        """Computes `banned` now. Call it before the weights are sharded: the head has no shape afterwards."""
        _ = self.banned

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """A context in which the model computes this policy: adapters are off for a LoRA reference, which shares its model."""
        if self.has_lora and not self.adapters:
            with self.model.disable_adapter():
                yield
        else:
            yield

    def reference(self) -> Policy:
        """A policy with the current weights, frozen. With LoRA it is the same model without adapters, which takes no memory."""
        if self.has_lora:
            reference = Policy(self.model, self.chat, adapters=False, owner=self)
            reference.trained_names = ()
            return reference
        reference = Policy(copy.deepcopy(self.model), self.chat)
        reference.model.requires_grad_(False).eval().zero_grad(set_to_none=True)
        return reference

    def trained_weights(self) -> dict[str, Tensor]:
        """The tensors that training changes, by name (detached, not copied)."""
        named = dict(self.model.named_parameters())
        return {name: named[name].detach() for name in self.trained_names}

    def exact_weights(self) -> dict[str, Tensor]:
        """The tensors of `trained_weights`, or their float32 copies where there are any; `load_weights` restores both."""
        return self.trained_weights() | self.float32_copies

    def weights(self, gather: Gather = iter) -> PolicyWeights:
        """All parameters by their names in the transformers model, one at a time. `gather`: see `PolicyWeights`."""
        return PolicyWeights(self.model, gather)

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Copies tensors that `trained_weights` or `exact_weights` returned. Raises ConfigError when the names differ."""
        trained = self.trained_weights()
        if different := sorted(trained.keys() ^ weights.keys()):
            raise ConfigError(
                [
                    f"{different[0]}: in the checkpoint or in the policy, but not in both; use the policy.* settings of "
                    "the run that wrote the checkpoint"
                ]
            )
        for name, tensor in [*trained.items(), *self.float32_copies.items()]:
            tensor.copy_(weights[name])

    def keep_float32_copies(self) -> None:
        """Makes `move_towards` move float32 copies of the trained half-precision weights: near 0.02 bfloat16 has steps of 1.2e-4,
        and a hundredth of a distance is mostly less than half of that, so that weights in bfloat16 would never move."""
        trained = self.trained_weights()
        self.float32_copies = {n: t.float() for n, t in trained.items() if t.dtype in HALF}

    def move_towards(self, other: Policy, share: float) -> None:
        """Moves the trained weights by `share` of the distance to another policy's, of the same shapes; those with a float32 copy
        are that copy, rounded."""
        target, moved = other.trained_weights(), self.exact_weights()
        for name, tensor in self.trained_weights().items():
            moved[name].lerp_(target[name].to(moved[name].dtype), share)
            if name in self.float32_copies:
                tensor.copy_(moved[name])

    def save(self, path: Path, write: Write | None = None) -> dict[str, str]:
        """Writes a folder that AutoModelForImageTextToText and AutoProcessor load (text only: AutoModelForCausalLM and
        AutoTokenizer). LoRA is merged in, in the model's dtype; `path/adapter` has the adapters, exact, and `merge.json`: the share
        of their update that the merged weights hold. `write`: as in `write_model`.

        Returns the name in the folder's files of each trained tensor that they hold as it is: with adapters, none.
        """
        written = self._save_merged(path, write)
        if not self.has_lora:
            return {n: written.stored[n] for n in self.trained_names if n in written.stored}
        self.model.save_pretrained(path / FOLDER, save_embedding_layers=False)
        content = {"dtype": str(self.dtype).removeprefix("torch."), "kept": written.kept}
        if written.base_digest is not None:
            content["base"] = written.base_digest
        (path / FOLDER / MERGE).write_text(json.dumps(content))
        if self.quantization != "none":
            held = {"quantization": self.quantization, "dtype": content["dtype"]}
            (path / FOLDER / HELD).write_text(json.dumps(held))
        return {}

    def save_merged(self, path: Path) -> float | None:
        """Writes the folder that `save` writes, without adapters, one tensor at a time. Returns the share of their update that
        the merged weights hold (see `PlainWeights.kept`); None for a policy without adapters."""
        written = self._save_merged(path, None)
        return written.kept if self.has_lora else None

    def _save_merged(self, path: Path, write: Write | None) -> WrittenModel:
        path.mkdir(parents=True, exist_ok=True)
        # transformers imports DeepSpeed, which prints messages about missing GPUs.
        if self.device.type == "cpu":
            os.environ.setdefault("DS_ACCELERATOR", "cpu")
        written = write_model(self.model, path, write)
        self.chat.save(path)
        return written
