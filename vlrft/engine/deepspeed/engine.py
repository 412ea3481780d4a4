"""The train engine over DeepSpeed: optimiser, gradients and weights of one stage, sharded by ZeRO."""

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
from vlrft.distributed.phases import phase
from vlrft.distributed.process_group import ensure_process_group
from vlrft.distributed.ranks import Ranks
from vlrft.engine.deepspeed.adapters import Float32Adapters
from vlrft.engine.deepspeed.package import import_deepspeed
from vlrft.engine.deepspeed.settings import Tree
from vlrft.engine.deepspeed.zero3 import (
    gather_by_layer,
    gather_in_turn,
    gather_model,
    gather_on_rank,
    restore_module,
)
from vlrft.engine.finite_weights import require_finite_weights
from vlrft.engine.lr_schedule import learning_rate
from vlrft.engine.moments import zero_moments
from vlrft.policy.policy import Policy
from vlrft.policy.policy_weights import Needs
from vlrft.policy.rank_sync import RoundRobin, Unsynchronised
from vlrft.policy.scorer import ScorerCall
from vlrft.schema.errors import ConfigError, NonFiniteError

MOMENTS = ("exp_avg", "exp_avg_sq")


class GuardedAdamW(torch.optim.AdamW):
    """AdamW that changes nothing while `paused`: DeepSpeed's step then only clears its gradients."""

    paused = False

    def step(self, closure: Any = None) -> Any:
        return None if self.paused else super().step(closure)


class DeepSpeedEngine:
    """AdamW over all trained weights, for one stage of a run; each rank holds a shard."""

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
        """`tree`: DeepSpeed's configuration; `by_layer`: samples with the weights of one layer at a time."""
        deepspeed = import_deepspeed(policy.device.type)
        ensure_process_group(policy.device.type)
        self.config, self.policy, self.ranks = config, policy, ranks
        self.total_steps = total_steps * config.updates_per_batch
        self.steps = 0  # of the schedule, including steps for which no rank had a gradient
        self.adam_steps = 0
        self.sharded = tree["zero_optimization"]["stage"] == 3
        self.by_layer = by_layer
        self.half = tree["bf16"]["enabled"]
        self._backwards = 0  # since the last step
        policy.cache_banned_tokens()
        named = dict(policy.model.named_parameters())
        self.parameters = {name: named[name] for name in policy.trained_names}
        self.adapters = Float32Adapters(self.parameters.values() if self.half else ())
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
            policy.backbone.keeps_features = False  # the tower runs on every rank or on none
        self.engine = self.scorer = self._initialize(deepspeed, tree)
        for name, buffer in policy.model.named_buffers():
            buffer.data = buffers[name]  # DeepSpeed casts rotary frequencies to bfloat16
        if self.sharded:
            deepspeed.zero.register_external_parameter(
                policy.own_scorer, policy.backbone.head.weight
            )
        self._reset_moments()
        self.adapters.restore_copies()

    def _initialize(self, deepspeed: Any, tree: Tree) -> Any:
        with redirect_stdout(StringIO()):  # stdout is for results, not for DeepSpeed's log
            try:
                return deepspeed.initialize(
                    model=self.policy.own_scorer, optimizer=self.optimizer, config=tree
                )[0]
            except ValidationError as e:
                mistake = e.errors()[0]
                at = ".".join(map(str, mistake["loc"]))
                raise ConfigError([f"engine.config: {at}: {mistake['msg']}"]) from None

    def _shards(self) -> list[Tensor]:
        """This rank's shards of the weights that AdamW updates."""
        if self.sharded:
            shards: list[Tensor] = self.engine.optimizer.fp32_partitioned_groups_flat
            return shards
        return [shard for group in self.optimizer.param_groups for shard in group["params"]]

    def _reset_moments(self) -> None:
        """Creates AdamW's state now, so that it can be saved or loaded before the first step. ZeRO-1 and 2 link a parameter
        to its part of the state once, after the first step, and fail where that step was not taken."""
        for shard in self._shards():
            moments = {key: torch.zeros_like(shard) for key in MOMENTS}
            step = torch.tensor(0.0, device=shard.device)
            self.optimizer.state[shard] = {"step": step, **moments}
        if not self.sharded:
            self.engine.optimizer._lazy_init_hp_params_optimizer_state()

    @phase("backward")
    def backward(self, loss: Tensor, *, last: bool) -> None:
        self.engine.backward(loss * self.ranks.size)
        self._backwards += 1

    @phase("optimiser")
    def step(self) -> dict[str, float]:
        rate = learning_rate(self.config, self.steps, self.total_steps)
        if not self._backwards:  # on any rank: DeepSpeed would step with the moments alone, or fail
            self.steps += 1
            return {"grad_norm": 0.0, "lr": rate}
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self._step()
        norm = float(self.engine.get_global_grad_norm())
        if self.engine.optimizer.overflow or not math.isfinite(norm):
            raise NonFiniteError(f"the gradient norm is {norm}")
        self.steps += 1
        self.adam_steps += 1
        shards = ((f"part {k} of the weights", shard) for k, shard in enumerate(self._shards()))
        require_finite_weights(shards, self.ranks)
        return {"grad_norm": norm, "lr": rate}

    def discard(self) -> None:
        if self._backwards:
            self.optimizer.paused = True
            self._step()
            self.optimizer.paused = False

    def reset_moments(self) -> None:
        zero_moments(self.optimizer)
        self.adam_steps = 0

    def _step(self) -> None:
        """DeepSpeed's step, after which its gradient buffers are emptied.

        ZeRO-3 and offloaded ZeRO-2 add to these buffers where a parameter has no gradient in the first micro-batch of a
        step, such as a vision model in a micro-batch of text, so the gradient of the previous step would be added again.
        """
        self.engine.step()
        self._backwards = 0
        zero = vars(self.engine.optimizer)
        buffers = [shard.grad for shard in self._shards()]
        buffers += [zero.get("grad_partitions_flat_buffer")]
        buffers += zero.get("accumulated_grads_in_cpu", {}).values()
        for buffer in buffers:
            if buffer is not None:
                buffer.zero_()
        zero.get("norm_for_param_grads", {}).clear()

    def unsharded(self) -> AbstractContextManager[None]:
        return gather_model(self.engine) if self.sharded else nullcontext()

    @contextmanager
    def unsharded_on_first_rank(self) -> Iterator[None]:
        exact = self.adapters.gather()  # by all ranks
        gathered = gather_on_rank(self.engine, self.ranks.first) if self.sharded else nullcontext()
        exact_on_first = self.adapters.hold(exact) if self.ranks.first else nullcontext()
        with gathered, exact_on_first:
            yield

    def gather_in_turn(self, needs: Needs) -> Iterator[str]:
        return gather_in_turn(self.engine, needs) if self.sharded else iter(needs)

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
        """The state in the format of the engine `single`. All ranks gather the tensors, rank 0 keeps them."""
        from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

        tensors: dict[str, Tensor] = {}
        for name, parameter in self.parameters.items():
            state: dict[str, Any] = {
                key: safe_get_full_optimizer_state(parameter, key) for key in MOMENTS
            }
            if self.half:
                state["weight"] = safe_get_full_fp32_param(parameter)
            if self.ranks.first:
                tensors |= {f"{name}/{k}": v.detach().cpu() for k, v in state.items()}
                tensors[f"{name}/step"] = torch.tensor(float(self.adam_steps))
        return tensors, {"steps": self.steps}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, float]) -> None:
        from deepspeed.utils import safe_set_full_fp32_param, safe_set_full_optimizer_state

        self.steps = int(values["steps"])
        steps = (tensors.get(f"{name}/step", torch.zeros(())) for name in self.parameters)
        # Another engine has no step for parameters without a gradient.
        self.adam_steps = int(max(steps))
        for shard in self._shards():
            self.optimizer.state[shard]["step"].fill_(float(self.adam_steps))
        for name, parameter in self.parameters.items():
            for key in MOMENTS:
                if f"{name}/{key}" in tensors:
                    safe_set_full_optimizer_state(parameter, tensors[f"{name}/{key}"], key)
            if self.half and f"{name}/weight" in tensors:
                safe_set_full_fp32_param(parameter, tensors[f"{name}/weight"])

    def close(self) -> None:
        exact = [data.clone() for data in self.adapters.gather()]
        if self.sharded:
            restore_module(self.engine)
            self.policy.backbone.keeps_features = True
        else:
            self.engine.destroy()
        self.adapters.fill(exact)
