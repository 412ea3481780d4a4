"""One stage's optimiser, gradients and weights in DeepSpeed's hands."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from io import StringIO
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from vlrft.config import UpdateConfig
from vlrft.distributed.ranks import Ranks
from vlrft.engine.deepspeed.package import meet, package
from vlrft.engine.deepspeed.settings import Tree
from vlrft.engine.deepspeed.zero3 import (
    gather_by_layer,
    gather_for_reader,
    gather_weights,
    restore_module,
)
from vlrft.engine.lr_schedule import learning_rate
from vlrft.engine.protocols import ScorerCall
from vlrft.policy.policy import Policy
from vlrft.policy.rank_sync import RoundRobin, Unsynchronised
from vlrft.schema.errors import ConfigError, NonFiniteError
from vlrft.tracing.phases import phase

MOMENTS = ("exp_avg", "exp_avg_sq")


class GuardedAdamW(torch.optim.AdamW):
    """Does nothing while it is held: DeepSpeed's step then only clears what it gathered."""

    held = False

    def step(self, closure: Any = None) -> Any:
        return None if self.held else super().step(closure)


class DeepSpeedEngine:
    """Holds the optimiser of one stage of a run, a shard of it on each rank."""

    scorer: ScorerCall | None

    def __init__(
        self,
        tree: Tree,
        by_layer: bool,
        config: UpdateConfig,
        policy: Policy,
        total_steps: int,
        ranks: Ranks,
    ) -> None:
        """`tree`: the JSON that DeepSpeed runs by; `by_layer`: it samples with a layer's weights at a time."""
        deepspeed = package(policy.device.type)
        meet(policy.device.type)
        self.config, self.policy, self.ranks = config, policy, ranks
        self.total_steps = total_steps * config.updates_per_batch
        self.steps = 0  # of the schedule; AdamW takes none where no rank has a gradient
        self.moved = 0  # AdamW's own
        self.sharded = tree["zero_optimization"]["stage"] == 3
        self.by_layer = by_layer
        self.half = tree["bf16"]["enabled"]
        self._gathered = 0  # backward passes since the last step
        policy.cache_banned_tokens()
        named = dict(policy.model.named_parameters())
        self.parameters = {name: named[name] for name in policy.trained_names}
        wide = self._float32()
        self.wide = tuple(wide)
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
            policy.backbone.keeps_features = False  # every rank runs the tower, or none
        self.engine = self.scorer = self._wrapped(deepspeed, tree)
        for name, buffer in policy.model.named_buffers():
            buffer.data = buffers[name]  # DeepSpeed makes rotary frequencies bfloat16
        if self.sharded:
            deepspeed.zero.register_external_parameter(policy.scorer, policy.backbone.head.weight)
        self._fresh_moments()
        for name, data in wide.items():
            deepspeed.utils.safe_set_full_fp32_param(self.parameters[name], data)

    def _float32(self) -> dict[str, Tensor]:
        """Adapters of a bfloat16 model, which DeepSpeed makes bfloat16, too; the float32 copies behind them go on."""
        wide = {n: p for n, p in self.parameters.items() if p.dtype == torch.float32}
        return {n: p.detach().clone() for n, p in wide.items()} if self.half else {}

    def _wrapped(self, deepspeed: Any, tree: Tree) -> Any:
        with redirect_stdout(StringIO()):  # where results go, not what DeepSpeed has to tell
            try:
                return deepspeed.initialize(
                    model=self.policy.scorer, optimizer=self.optimizer, config=tree
                )[0]
            except ValidationError as e:
                mistake = e.errors()[0]
                at = ".".join(map(str, mistake["loc"]))
                raise ConfigError([f"engine.config: {at}: {mistake['msg']}"]) from None

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

    def unsharded(self) -> AbstractContextManager[None]:
        return gather_weights(self.engine) if self.sharded else nullcontext()

    def unsharded_on_first_rank(self) -> AbstractContextManager[None]:
        return gather_for_reader(self.engine, self.ranks.first) if self.sharded else nullcontext()

    @contextmanager
    def ready_to_sample(self) -> Iterator[None]:
        if not self.by_layer:
            with self.unsharded():
                yield
            return
        self.policy.rank_sync = RoundRobin(self.ranks)
        try:
            with gather_by_layer(self.engine):
                yield
        finally:
            self.policy.rank_sync = Unsynchronised()

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
        taken = (tensors.get(f"{name}/step", torch.zeros(())) for name in self.parameters)
        self.moved = int(max(taken))  # another engine has none for what had no gradient yet
        for shard in self._shards():
            self.optimizer.state[shard]["step"].fill_(float(self.moved))
        for name, parameter in self.parameters.items():
            for key in MOMENTS:
                if f"{name}/{key}" in tensors:
                    safe_set_full_optimizer_state(parameter, tensors[f"{name}/{key}"], key)
            if self.half and f"{name}/weight" in tensors:
                safe_set_full_fp32_param(parameter, tensors[f"{name}/weight"])

    def close(self) -> None:
        from deepspeed.utils import safe_get_full_fp32_param

        copies = {n: safe_get_full_fp32_param(self.parameters[n]) for n in self.wide}
        exact = {n: data.clone() for n, data in copies.items() if data is not None}
        if self.sharded:
            restore_module(self.engine)
            self.policy.backbone.keeps_features = True
        else:
            self.engine.destroy()
        for name, data in exact.items():
            self.parameters[name].data = data.view_as(self.parameters[name])
