"""The train engine over FSDP2: AdamW over this rank's shards of all trained weights."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from vlrft.config import UpdateConfig
from vlrft.distributed.phases import phase
from vlrft.distributed.ranks import Ranks
from vlrft.engine.finite_weights import require_finite_weights
from vlrft.engine.fsdp.shards import (
    Sharding,
    gather_all,
    gather_in_turn,
    gather_on_rank,
    restore,
    shard,
)
from vlrft.engine.lr_schedule import learning_rate
from vlrft.engine.moments import zero_moments
from vlrft.policy.policy import Policy
from vlrft.policy.policy_weights import Needs
from vlrft.policy.scorer import ScorerCall
from vlrft.schema.errors import NonFiniteError


class FsdpEngine:
    """AdamW over all trained weights, for one stage of a run; each rank holds a shard of everything."""

    scorer: ScorerCall | None

    def __init__(
        self,
        sharding: Sharding,
        config: UpdateConfig,
        policy: Policy,
        total_steps: int,
        ranks: Ranks,
    ) -> None:
        self.config, self.policy, self.ranks = config, policy, ranks
        self.total_steps = total_steps * config.updates_per_batch
        self.steps = 0
        dtypes = {name: weight.dtype for name, weight in policy.trained_weights().items()}
        self.sharded, self.units = shard(policy, sharding)
        named: dict[str, Any] = dict(self.sharded.model.named_parameters())
        self.parameters = {name: named[name] for name in policy.trained_names}
        self.copied = {n for n, p in self.parameters.items() if p.dtype != dtypes[n]}
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(),
            lr=config.lr,
            betas=config.betas,
            eps=config.eps,
            weight_decay=config.weight_decay,
            fused=True,
        )
        self.modules = list(zip(policy.model.modules(), self.sharded.model.modules(), strict=True))
        self.adapted = [own for own, _ in self.modules if policy.has_lora and _is_adapted(own)]
        policy.backbone.keeps_features = False  # a LoRA reference then uses this policy's scorer
        self.scorer = policy.sharded_scorer = self._score

    def _score(self, *inputs: Any) -> tuple[Tensor, Tensor]:
        """The sharded copy's scorer, in the modes of the policy's own modules. All ranks call it together."""
        for own, copied in self.modules:
            copied.training = own.training
        off = any(own.disable_adapters for own in self.adapted)
        with self.sharded.model.disable_adapter() if off else nullcontext():
            scores: tuple[Tensor, Tensor] = self.sharded.own_scorer(*inputs)
        if not torch.is_grad_enabled():
            self._release()
        return scores

    def _release(self) -> None:
        """Frees the weights that a pass without a backward pass leaves complete."""
        for unit in self.units:
            unit.module.reshard()

    @phase("backward")
    def backward(self, loss: Tensor, *, last: bool) -> None:
        loss.backward()  # type: ignore[no-untyped-call]

    @phase("optimiser")
    def step(self) -> dict[str, float]:
        rate = learning_rate(self.config, self.steps, self.total_steps)
        limit = self.config.max_grad_norm or math.inf
        norm = float(_whole(torch.nn.utils.clip_grad_norm_(self.parameters.values(), limit)))
        if not math.isfinite(norm):
            raise NonFiniteError(f"the gradient norm is {norm}")
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.discard()
        self.steps += 1
        shards = ((name, shard.to_local()) for name, shard in self.parameters.items())
        require_finite_weights(shards, self.ranks)
        return {"grad_norm": norm, "lr": rate}

    def discard(self) -> None:
        self._release()
        self.optimizer.zero_grad(set_to_none=True)

    def reset_moments(self) -> None:
        zero_moments(self.optimizer)

    def unsharded(self) -> AbstractContextManager[None]:
        return self._in_own_modules(gather_all(self.units))

    def unsharded_on_first_rank(self) -> AbstractContextManager[None]:
        return self._in_own_modules(gather_on_rank(self.units, self.ranks.first))

    @contextmanager
    def _in_own_modules(self, gathered: AbstractContextManager[None]) -> Iterator[None]:
        """A context in which the policy's own modules have the gathered weights, and its scorer is again its own."""
        self.policy.sharded_scorer = None
        try:
            with gathered:
                yield
        finally:
            self.policy.sharded_scorer = self._score

    def gather_in_turn(self, needs: Needs) -> Iterator[str]:
        return gather_in_turn(self.units, needs)

    def ready_to_sample(self) -> AbstractContextManager[None]:
        return self.unsharded()

    def state(self) -> tuple[dict[str, Tensor], dict[str, float]]:
        """The state in the format of the engine `single`. All ranks gather the tensors, rank 0 keeps them."""
        tensors: dict[str, Tensor] = {}
        for name, parameter in self.parameters.items():
            parts: dict[str, Tensor] = dict(self.optimizer.state[parameter])
            if name in self.copied:
                parts["weight"] = parameter.detach()
            for key, part in parts.items():
                whole = _whole(part)
                if self.ranks.first:
                    tensors[f"{name}/{key}"] = whole.to("cpu", copy=True)
        return tensors, {"steps": self.steps}

    @torch.no_grad()
    def load_state(self, tensors: dict[str, Tensor], values: dict[str, float]) -> None:
        for name, parameter in self.parameters.items():
            prefix = f"{name}/"
            state = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            # Another engine may have a copy where this one has none.
            exact = state.pop("weight", None)
            if exact is not None:
                parameter.to_local().copy_(self._rows_of(exact, parameter))
            self.optimizer.state[parameter] = {
                key: self._shard(part, parameter) for key, part in state.items()
            }
        self.steps = int(values["steps"])

    def _rows_of(self, tensor: Tensor, parameter: Any) -> Tensor:
        """This rank's rows of a complete tensor, as FSDP2 shards a parameter of its shape."""
        rows = -(-len(tensor) // self.ranks.size)
        start = rows * self.ranks.rank
        return tensor[start : start + rows].to(parameter.to_local().device, copy=True)

    def _shard(self, tensor: Tensor, parameter: Any) -> Tensor:
        """A tensor of AdamW's state, sharded as its parameter is; its count of steps has no axis and is whole."""
        from torch.distributed.tensor import DTensor

        if not tensor.dim():
            return tensor.to(parameter.to_local().device, copy=True)
        shape, stride = parameter.shape, parameter.stride()
        local = self._rows_of(tensor, parameter)
        mesh, placements = parameter.device_mesh, parameter.placements
        return DTensor.from_local(
            local, mesh, placements, run_check=False, shape=shape, stride=stride
        )

    def close(self) -> None:
        restore(self.units)
        self.policy.sharded_scorer = self.scorer = None
        self.policy.backbone.keeps_features = True
        self.units, self.parameters, self.modules, self.adapted = (), {}, [], []
        del self.sharded, self.optimizer
        gc.collect()  # FSDP2's objects refer to each other, and hold the shards


def _is_adapted(module: nn.Module) -> bool:
    """Whether peft has added adapters to the module."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    return isinstance(module, BaseTunerLayer)


def _whole(tensor: Any) -> Tensor:
    """The complete tensor. All ranks call it for a sharded one."""
    from torch.distributed.tensor import DTensor

    with torch.no_grad():
        whole: Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return whole
