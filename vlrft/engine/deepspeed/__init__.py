"""The engine `deepspeed`: ZeRO-1 shards the optimiser over the ranks, ZeRO-2 also the gradients, ZeRO-3 also the weights.

Its results are those of the engine `single`: gradients are summed (DeepSpeed averages them, so the loss is multiplied by
the number of ranks), AdamW is torch's, half-precision weights are trained through float32 copies, and gradients are
clipped as the config says.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch

from vlrft.config import UpdateConfig, strict
from vlrft.distributed.ranks import Ranks
from vlrft.engine.deepspeed.engine import DeepSpeedEngine
from vlrft.engine.deepspeed.memory import zero_memory
from vlrft.engine.deepspeed.package import import_deepspeed
from vlrft.engine.deepspeed.settings import Tree, default_settings, merge_file, required_settings
from vlrft.memory.rank_memory import RankMemory
from vlrft.memory.shapes import ModelShape
from vlrft.policy.policy import Policy
from vlrft.schema.errors import ConfigError


@strict
class DeepSpeed:
    """Optimiser, gradients and weights sharded over the ranks (DeepSpeed, extra `[deepspeed]`)."""

    stage: Literal[1, 2, 3] = 2
    """ZeRO stage: 1 shards the optimiser, 2 also gradients, 3 also weights."""
    offload: Literal["none", "cpu"] = "none"
    """cpu: the optimiser's state is in host memory, and its step runs on the CPU."""
    config: str | None = None
    """A DeepSpeed JSON file with further settings. A setting that contradicts this config is an error."""
    rollout: Literal["gather", "hooks"] = "gather"
    """How stage 3 samples. gather: each rank holds all weights while it samples; hooks: only the weights of the
    running layer, which are gathered for every token while all ranks sample together."""

    CHOICES: ClassVar[tuple[dict[str, Any], ...]] = (
        {"stage": 1},
        {"stage": 2},
        {"stage": 2, "offload": "cpu"},
        {"stage": 3},
        {"stage": 3, "rollout": "hooks"},
        {"stage": 3, "offload": "cpu"},
    )

    def build(
        self, config: UpdateConfig, policy: Policy, total_steps: int, ranks: Ranks
    ) -> DeepSpeedEngine:
        self.check(config, policy)
        half = policy.dtype == torch.bfloat16
        trained = sum(tensor.numel() for tensor in policy.trained_weights().values())
        tree = self.tree(config, half, trained)
        return DeepSpeedEngine(tree, self.rollout == "hooks", config, policy, total_steps, ranks)

    def check(self, config: UpdateConfig, policy: Policy) -> None:
        """Raises ConfigError for settings that DeepSpeed cannot train with, and where it is not installed."""
        _refuse(self, config, policy.dtype)
        self.tree(config, policy.dtype == torch.bfloat16, trained=1)
        import_deepspeed(policy.device.type)

    def rank_memory(self, config: UpdateConfig, model: ModelShape, ranks: int) -> RankMemory:
        half = model.element == 2
        _refuse(self, config, torch.bfloat16 if half else torch.float32)
        tree = self.tree(config, half, sum(model.weights.sizes))
        by_layer = self.rollout == "hooks"
        return zero_memory(tree["zero_optimization"], model, ranks, by_layer)

    def tree(self, config: UpdateConfig, half: bool, trained: int) -> Tree:
        """DeepSpeed's configuration for `trained` trained elements. Raises ConfigError for a file that contradicts it."""
        offload = self.offload == "cpu"
        required = required_settings(update=config, stage=self.stage, offload=offload, half=half)
        return merge_file(required, self.config, default_settings(trained))


KIND = DeepSpeed


def _refuse(kind: DeepSpeed, config: UpdateConfig, dtype: torch.dtype) -> None:
    if kind.rollout == "hooks" and kind.stage != 3:
        raise ConfigError(
            [
                f"engine.rollout: hooks gathers sharded weights, but stage {kind.stage} does not shard them; "
                "use stage 3 or remove it"
            ]
        )
    if dtype not in (torch.float32, torch.bfloat16):
        raise ConfigError([f"engine: deepspeed trains float32 and bfloat16, not {dtype}"])
    if dtype == torch.bfloat16 and not config.master_weights:
        raise ConfigError(
            [
                "update.master_weights: false, but DeepSpeed always keeps float32 copies of bfloat16 weights; remove it"
            ]
        )
