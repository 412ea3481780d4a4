"""DeepSpeed: ZeRO-1 shards the optimiser over the ranks, ZeRO-2 the gradients besides, ZeRO-3 the weights as well.

The numbers are those of the single engine: gradients are summed (DeepSpeed averages them: the loss is multiplied by the
number of ranks), AdamW is torch's, float32 copies stand behind half-precision weights, clipping is the config's.
"""

from __future__ import annotations

import logging
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from io import StringIO
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from vlrft.config import ConfigError, UpdateConfig, strict
from vlrft.engine import deepspeed_memory, zero3
from vlrft.engine.deepspeed_json import Tree, advised, settings, with_file
from vlrft.engine.schedule import learning_rate
from vlrft.objectives import NonFiniteError
from vlrft.phases import phase
from vlrft.planning.shapes import Model
from vlrft.planning.share import Share
from vlrft.policy.load import Policy
from vlrft.policy.logprobs import TokenScores, packed_logprobs
from vlrft.policy.pace import Free, InStep
from vlrft.policy.packed import PackItem
from vlrft.ranks import Ranks

MOMENTS = ("exp_avg", "exp_avg_sq")


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
        return DeepSpeedEngine(self, config, policy, total_steps, ranks)

    def holds(self, config: UpdateConfig, model: Model, ranks: int) -> Share:
        half = model.element == 2
        _refuse(self, config, torch.bfloat16 if half else torch.float32)
        tree = self.tree(config, half, sum(model.weights.sizes))
        by_layer = self.rollout == "hooks"
        return deepspeed_memory.share(tree["zero_optimization"], model, ranks, by_layer)

    def tree(self, config: UpdateConfig, half: bool, trained: int) -> Tree:
        """What DeepSpeed runs by, for so many trained numbers. Raises ConfigError for a file that says otherwise."""
        offload = self.offload == "cpu"
        own = settings(update=config, stage=self.stage, offload=offload, half=half)
        return with_file(own, self.config, advised(trained))


class GuardedAdamW(torch.optim.AdamW):
    """Does nothing while it is held: DeepSpeed's step then only clears what it gathered."""

    held = False

    def step(self, closure: Any = None) -> Any:
        return None if self.held else super().step(closure)


class DeepSpeedEngine:
    """Holds the optimiser of one stage of a run, a shard of it on each rank."""

    def __init__(
        self,
        kind: DeepSpeed,
        config: UpdateConfig,
        policy: Policy,
        total_steps: int,
        ranks: Ranks,
    ) -> None:
        """Raises ConfigError for what DeepSpeed cannot do, and when it is not installed."""
        half = policy.dtype == torch.bfloat16
        _refuse(kind, config, policy.dtype)
        deepspeed = _module(policy.device.type)
        self.config, self.policy, self.ranks = config, policy, ranks
        self.total_steps = total_steps * config.updates_per_batch
        self.steps = 0  # of the schedule; AdamW takes none where no rank has a gradient
        self.moved = 0  # AdamW's own
        self.sharded = kind.stage == 3
        self.by_layer = kind.rollout == "hooks"
        self._gathered = 0  # backward passes since the last step
        policy.banned  # noqa: B018  as long as the head has a shape
        named = dict(policy.model.named_parameters())
        self.parameters = {name: named[name] for name in policy.trained_names}
        self.half = half
        self.optimizer = GuardedAdamW(
            self.parameters.values(),
            lr=config.lr,
            betas=config.betas,
            eps=config.eps,
            weight_decay=config.weight_decay,
            fused=True,
        )
        buffers = {name: b.clone() for name, b in policy.model.named_buffers()}
        if self.sharded:
            policy.trunk.keeps_features = False  # every rank runs the tower, or none
        count = sum(parameter.numel() for parameter in self.parameters.values())
        config_json = kind.tree(config, half, count)
        with redirect_stdout(StringIO()):  # where results go, not what DeepSpeed has to tell
            self.engine: Any = deepspeed.initialize(
                model=policy.scorer, optimizer=self.optimizer, config=config_json
            )[0]
        for (
            name,
            buffer,
        ) in policy.model.named_buffers():  # DeepSpeed makes rotary frequencies bfloat16
            buffer.data = buffers[name]
        if self.sharded:
            deepspeed.zero.register_external_parameter(policy.scorer, policy.trunk.head.weight)
        self._fresh_moments()

    def _shards(self) -> list[Tensor]:
        """This rank's parts of what AdamW moves."""
        if self.sharded:
            found: list[Tensor] = self.engine.optimizer.fp32_partitioned_groups_flat
            return found
        return [shard for group in self.optimizer.param_groups for shard in group["params"]]

    def _fresh_moments(self) -> None:
        """AdamW's state from the start, to be saved or loaded before the first step. ZeRO-1 and 2 link a parameter to
        its part of it once, after the first step, and would find nothing where that step is not taken."""
        for shard in self._shards():
            moments = {key: torch.zeros_like(shard) for key in MOMENTS}
            step = torch.tensor(0.0, device=shard.device)
            self.optimizer.state[shard] = {"step": step, **moments}
        if not self.sharded:
            self.engine.optimizer._lazy_init_hp_params_optimizer_state()

    def logprobs(
        self,
        items: Sequence[PackItem],
        mask: Tensor,
        temperature: float,
        entropy_gradient: bool = False,
        besides: Sequence[PackItem] = (),
    ) -> TokenScores:
        return packed_logprobs(
            self.policy,
            items,
            mask=mask,
            temperature=temperature,
            entropy_gradient=entropy_gradient,
            besides=besides,
            scorer=self.engine,
        )

    @phase("backward")
    def backward(self, loss: Tensor) -> None:
        self.engine.backward(loss * self.ranks.size)
        self._gathered += 1

    @phase("optimiser")
    def step(self) -> dict[str, float]:
        rate = learning_rate(self.config, self.steps, self.total_steps)
        if not self._gathered:  # on no rank: DeepSpeed would move by the moments alone, or fail
            self.steps += 1
            return {"grad_norm": 0.0, "lr": rate}
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self._step()
        norm = float(self.engine.get_global_grad_norm())
        if self.engine.optimizer.overflow or not math.isfinite(norm):
            raise NonFiniteError(f"the gradient norm is {norm}")
        self.steps += 1
        self.moved += 1
        return {"grad_norm": norm, "lr": rate}

    def discard(self) -> None:
        if self._gathered:
            self.optimizer.held = True
            self._step()
            self.optimizer.held = False

    def _step(self) -> None:
        """DeepSpeed's, and then its buffers are emptied: ZeRO-3 and offloaded ZeRO-2 add to them where a parameter has
        no gradient in the first micro-batch of a step, as a vision tower in one of text alone, and so the gradient of
        the step before came back.
        """
        self.engine.step()
        self._gathered = 0
        zero = vars(self.engine.optimizer)
        kept = [shard.grad for shard in self._shards()]
        kept += [zero.get("grad_partitions_flat_buffer")]
        kept += zero.get("accumulated_grads_in_cpu", {}).values()
        for buffer in kept:
            if buffer is not None:
                buffer.zero_()
        zero.get("norm_for_param_grads", {}).clear()

    def whole(self) -> AbstractContextManager[None]:
        return zero3.whole(self.engine) if self.sharded else nullcontext()

    def whole_on_first(self) -> AbstractContextManager[None]:
        return zero3.read_by(self.engine, self.ranks.first) if self.sharded else nullcontext()

    @contextmanager
    def sampling(self) -> Iterator[None]:
        if not self.by_layer:
            with self.whole():
                yield
            return
        self.policy.pace = InStep(self.ranks)
        try:
            with zero3.by_layer(self.engine):
                yield
        finally:
            self.policy.pace = Free()

    def state(self) -> tuple[dict[str, Tensor], dict[str, float]]:
        """As the single engine's; only rank 0 keeps the tensors that all gather."""
        from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

        tensors: dict[str, Tensor] = {}
        for name, parameter in self.parameters.items():
            found: dict[str, Any] = {
                key: safe_get_full_optimizer_state(parameter, key) for key in MOMENTS
            }
            if self.half:
                found["weight"] = safe_get_full_fp32_param(parameter)
            if self.ranks.first:
                tensors |= {f"{name}/{k}": v.detach().cpu() for k, v in found.items()}
                tensors[f"{name}/step"] = torch.tensor(float(self.moved))
        return tensors, {"steps": self.steps}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, float]) -> None:
        from deepspeed.utils import safe_set_full_fp32_param, safe_set_full_optimizer_state

        self.steps = int(values["steps"])
        self.moved = int(max(tensors[f"{name}/step"] for name in self.parameters))
        for shard in self._shards():
            self.optimizer.state[shard]["step"].fill_(float(self.moved))
        for name, parameter in self.parameters.items():
            for key in MOMENTS:
                safe_set_full_optimizer_state(parameter, tensors[f"{name}/{key}"], key)
            if self.half:
                safe_set_full_fp32_param(parameter, tensors[f"{name}/weight"])

    def close(self) -> None:
        if self.sharded:
            zero3.restore(self.engine)
            self.policy.trunk.keeps_features = True
        else:
            self.engine.destroy()


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


def _module(device: str) -> Any:
    """The package, told to keep to the device and to be quiet. Raises ConfigError naming the extra."""
    if device == "cpu":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ.setdefault("LOCAL_RANK", "0")
    try:
        import deepspeed
        import deepspeed.ops
    except ImportError:
        raise ConfigError(
            ["engine: deepspeed is not installed; pip install 'vlrft[deepspeed]'"]
        ) from None
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", r"`torch\.distributed\.", FutureWarning)  # DeepSpeed's affair
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = (
        False  # compiled for a minute, for inference
    )
    return deepspeed
