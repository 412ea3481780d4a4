"""The policy as the servers see it, and the refusal of policies that they cannot sample as they are trained."""

from __future__ import annotations

import torch

from vlrft.policy.families import ServedImages
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.vllm.settings import Settings
from vlrft.rollout.engines.vllm.wire import Wire
from vlrft.schema.errors import ConfigError

HALF = (torch.bfloat16, torch.float16)


def make_wire(policy: Policy) -> Wire:
    """The part that all requests of the policy have in common."""
    chat, vision = policy.chat, policy.chat.vision
    return Wire(
        ends=tuple(sorted(chat.end_ids)),
        banned=tuple(sorted(chat.banned_ids)),
        vocab=policy.backbone.head.weight.shape[0],
        image_token=chat.image_token_id,
        images=vision if isinstance(vision, ServedImages) else None,
        half=policy.dtype if policy.dtype in HALF else None,
    )


def check_policy(settings: Settings, policy: Policy, ranks: int) -> None:
    """Raises ConfigError for a policy or a run that the settings do not fit."""
    if settings.sleep and ranks > 1:
        raise ConfigError(
            [
                f"rollout.engine.sleep: works with one rank, and the run has {ranks}; give the servers GPUs of their own"
            ]
        )
    if policy.backbone.recurrent_layers:
        raise ConfigError(
            [
                "rollout.engine: the policy has recurrent layers, and that vLLM's states of them are those of training has not been "
                "shown; use rollout.engine=hf"
            ]
        )
    vision = policy.chat.vision
    if vision is not None and not isinstance(vision, ServedImages):
        raise ConfigError(
            [
                f"rollout.engine: images of {type(vision).__name__} cannot be sent to vLLM (its family has no `serve`); use "
                "rollout.engine=hf"
            ]
        )
    started_here = not (settings.urls or settings.command)
    if settings.sleep and started_here and policy.device.type == "cpu":
        raise ConfigError(
            [
                "rollout.engine.sleep: vLLM frees memory on GPUs alone, and the policy is on a CPU; leave it out"
            ]
        )
    if settings.lora == "merged":
        return
    if not policy.has_lora:
        raise ConfigError(
            [
                "rollout.engine.lora: adapter, but the policy has no adapters; set policy.lora, or merged"
            ]
        )
    if vision is not None and any(map(vision.is_vision, policy.trained_names)):
        raise ConfigError(
            [
                "rollout.engine.lora: vLLM adapts the language model alone, and the vision model is trained, too; use merged"
            ]
        )
