"""The engine `fsdp`: FSDP2 of PyTorch shards weights, gradients and the optimiser over the ranks.

Its results are those of the engine `single`: gradients are summed (FSDP2 averages them by default), AdamW is torch's,
half-precision weights are trained through float32 shards, and gradients are clipped over their norm on all ranks.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch

from vlrft.config import UpdateConfig, strict
from vlrft.distributed.process_group import ensure_process_group
from vlrft.distributed.ranks import Ranks
from vlrft.engine.fsdp.engine import FsdpEngine
from vlrft.engine.fsdp.memory import fsdp_memory
from vlrft.engine.fsdp.shards import Sharding
from vlrft.memory.rank_memory import RankMemory
from vlrft.memory.shapes import ModelShape
from vlrft.policy.policy import Policy
from vlrft.schema.errors import ConfigError


@strict
class Fsdp:
    """Weights, gradients and optimiser sharded over the ranks (FSDP2, part of PyTorch)."""

    reshard_after_forward: bool = True
    """true: a layer's weights are complete only while it runs, and are gathered a second time for its backward pass. false:
    they stay complete from the forward to the backward pass, which saves a third of the communication and takes the
    memory of all weights during a pass."""
    offload: Literal["none", "cpu"] = "none"
    """cpu: the shards of weights, gradients and optimiser are in host memory, and the optimiser's step runs on the CPU."""
    reduce_dtype: Literal["float32", "bfloat16"] = "float32"
    """The dtype in which the gradients of a bfloat16 model are summed over the ranks. bfloat16 halves what is sent and has
    three significant digits; the sum over micro-batches is float32 in either case."""

    CHOICES: ClassVar[tuple[dict[str, Any], ...]] = (
        {},
        {"reshard_after_forward": False},
        {"offload": "cpu"},
    )

    def build(
        self, config: UpdateConfig, policy: Policy, total_steps: int, ranks: Ranks
    ) -> FsdpEngine:
        from torch.distributed.device_mesh import init_device_mesh

        self.check(config, policy)
        device = policy.device.type
        ensure_process_group(device)
        half = policy.dtype in (torch.bfloat16, torch.float16)
        sharding = Sharding(
            mesh=init_device_mesh(device, (ranks.size,)),
            float32_copies=config.master_weights,
            reshard_after_forward=self.reshard_after_forward,
            reduce_dtype=getattr(torch, self.reduce_dtype) if half else None,
            offload=self.offload == "cpu",
        )
        return FsdpEngine(sharding, config, policy, total_steps, ranks)

    def check(self, config: UpdateConfig, policy: Policy) -> None:
        """Raises ConfigError for weights that FSDP2 cannot shard, and for a PyTorch without it."""
        _refuse_old_torch()
        for name, parameter in policy.model.named_parameters():
            if not parameter.is_floating_point():
                raise ConfigError(
                    [
                        f"engine: fsdp cannot shard {name}, which is stored as {parameter.dtype}; use single, or a model "
                        "that is not quantised"
                    ]
                )

    def rank_memory(self, config: UpdateConfig, model: ModelShape, ranks: int) -> RankMemory:
        return fsdp_memory(
            model,
            ranks,
            copies=config.master_weights,
            reshard=self.reshard_after_forward,
            offload=self.offload == "cpu",
            reduced=2 if self.reduce_dtype == "bfloat16" and model.element == 2 else 4,
        )


KIND = Fsdp


def _refuse_old_torch() -> None:
    from torch.distributed import fsdp

    module = getattr(fsdp, "FSDPModule", None)
    if not hasattr(module, "set_force_sum_reduction_for_comms"):
        raise ConfigError(
            [
                f"engine: fsdp needs a newer PyTorch than {torch.__version__}, whose FSDP2 cannot sum gradients; install "
                "torch>=2.9, or use single or deepspeed"
            ]
        )
