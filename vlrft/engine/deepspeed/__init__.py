"""DeepSpeed: ZeRO-1 shards the optimiser over the ranks, ZeRO-2 the gradients besides, ZeRO-3 the weights as well.

The numbers are those of the single engine: gradients are summed (DeepSpeed averages them: the loss is multiplied by the
number of ranks), AdamW is torch's, float32 copies stand behind half-precision weights, clipping is the config's.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch

from vlrft.config import UpdateConfig, strict
from vlrft.distributed.ranks import Ranks
from vlrft.engine.deepspeed.engine import DeepSpeedEngine
from vlrft.engine.deepspeed.memory import zero_memory
from vlrft.engine.deepspeed.package import package
from vlrft.engine.deepspeed.settings import Tree, advised, settings, with_file
from vlrft.memory.rank_memory import RankMemory
from vlrft.memory.shapes import ModelShape
from vlrft.policy.policy import Policy
from vlrft.schema.errors import ConfigError


@strict
class DeepSpeed:
    """Optimiser, gradients and weights sharded over the ranks (DeepSpeed, extra `[deepspeed]`)."""

    stage: Literal[1, 2, 3] = 2
    """What is sharded: 1 the optimiser, 2 gradients too, 3 weights too."""
    offload: Literal["none", "cpu"] = "none"
    """cpu: the optimiser's state and its step are the processor's."""
    config: str | None = None
    """A DeepSpeed JSON file with settings besides ours; what it says otherwise than this config is an error."""
    rollout: Literal["gather", "hooks"] = "gather"
    """What stage 3 samples with: each rank with all weights, or with those of the layer that runs, gathered anew for
    each token while all ranks sample together."""

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
        half, trained = (
            policy.dtype == torch.bfloat16,
            sum(t.numel() for t in policy.trained_weights().values()),
        )
        tree = self.tree(config, half, trained)
        return DeepSpeedEngine(tree, self.rollout == "hooks", config, policy, total_steps, ranks)

    def check(self, config: UpdateConfig, policy: Policy) -> None:
        """Raises ConfigError for what DeepSpeed cannot do, and when it is not installed."""
        _refuse(self, config, policy.dtype)
        self.tree(config, policy.dtype == torch.bfloat16, trained=1)
        package(policy.device.type)

    def rank_memory(self, config: UpdateConfig, model: ModelShape, ranks: int) -> RankMemory:
        half = model.element == 2
        _refuse(self, config, torch.bfloat16 if half else torch.float32)
        tree = self.tree(config, half, sum(model.weights.sizes))
        by_layer = self.rollout == "hooks"
        return zero_memory(tree["zero_optimization"], model, ranks, by_layer)

    def tree(self, config: UpdateConfig, half: bool, trained: int) -> Tree:
        """What DeepSpeed runs by, for so many trained numbers. Raises ConfigError for a file that says otherwise."""
        offload = self.offload == "cpu"
        own = settings(update=config, stage=self.stage, offload=offload, half=half)
        return with_file(own, self.config, advised(trained))


KIND = DeepSpeed


def _refuse(kind: DeepSpeed, config: UpdateConfig, dtype: torch.dtype) -> None:
    if kind.rollout == "hooks" and kind.stage != 3:
        raise ConfigError(
            [
                f"engine.rollout: hooks gathers sharded weights, but stage {kind.stage} shards none; "
                "use stage 3, or leave it out"
            ]
        )
    if dtype not in (torch.float32, torch.bfloat16):
        raise ConfigError([f"engine: deepspeed trains float32 and bfloat16, not {dtype}"])
    if dtype == torch.bfloat16 and not config.master_weights:
        raise ConfigError(
            ["update.master_weights: false, but DeepSpeed always keeps float32 copies of bfloat16"]
        )
