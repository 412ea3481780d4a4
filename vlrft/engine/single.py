"""The engine `single`: AdamW on one device per rank, which holds all weights and the whole optimiser."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from vlrft.config import UpdateConfig, strict
from vlrft.distributed.phases import phase
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.engine.finite_weights import require_finite_weights
from vlrft.engine.gradient_buckets import BUCKET_BYTES, GradientBuckets
from vlrft.engine.lr_schedule import learning_rate
from vlrft.engine.moments import zero_moments
from vlrft.memory.rank_memory import GradientMemory, RankMemory
from vlrft.memory.shapes import ModelShape
from vlrft.policy.policy import Policy
from vlrft.policy.policy_weights import Needs
from vlrft.policy.scorer import ScorerCall
from vlrft.schema.errors import NonFiniteError

HALF = (torch.bfloat16, torch.float16)


@strict
class Single:
    """Unsharded: each rank holds the whole policy and the whole optimiser; gradients are summed over the ranks."""

    CHOICES: ClassVar[tuple[dict[str, Any], ...]] = ({},)
    PACKED = True

    def build(
        self, config: UpdateConfig, policy: Policy, total_steps: int, ranks: Ranks
    ) -> SingleEngine:
        return SingleEngine(config, policy, total_steps, ranks)

    def check(self, config: UpdateConfig, policy: Policy) -> None:
        """Accepts every policy."""

    def rank_memory(self, config: UpdateConfig, model: ModelShape, ranks: int) -> RankMemory:
        """All weights, float32 copies of trained half-precision weights, and two moments for each trained number, in the dtype
        that the optimiser updates. Several ranks sum gradients in a bucket, beside those that are copied into it."""
        weights = model.weights
        half = weights.half if config.master_weights else 0
        updated = weights.trained + half
        optimiser = {"float32 copies": 2 * half, "optimiser moments": 2 * updated}
        bucket = min(BUCKET_BYTES, updated)
        return RankMemory(
            held={"weights": weights.total, **optimiser},
            gradients=GradientMemory(fresh=updated, summed=updated, in_place=True),
            reducing={"communication buckets": bucket} if ranks > 1 else {},
            reduce_from=bucket / max(updated, 1),
            step={"gradients": updated},
            checkpoint=optimiser,
        )


KIND = Single


class SingleEngine:
    """AdamW over all trained weights, for one stage of a run.

    Parameters in half precision are trained through float32 copies, and their gradients are summed in float32: near 0.02
    bf16 has steps of 1.2e-4, and an update of 1e-6 would be lost (Micikevicius et al. 2018, arXiv 1710.03740, section 3.1).
    """

    scorer: ScorerCall | None = None  # the policy's own

    def __init__(
        self, config: UpdateConfig, policy: Policy, total_steps: int, ranks: Ranks = ALONE
    ) -> None:
        self.ranks = ranks
        self.config = config
        self.policy = policy
        self.total_steps = total_steps * config.updates_per_batch
        self.steps = 0
        named = [(n, p) for n, p in policy.model.named_parameters() if p.requires_grad]
        self.names = [n for n, _ in named]
        self.parameters = [p for _, p in named]
        # The tensors that the optimiser updates.
        self.weights = [self._weight(p) for p in self.parameters]
        self.sums = GradientBuckets(self.weights, ranks)
        self.optimizer = torch.optim.AdamW(
            self.weights,
            lr=config.lr,
            betas=config.betas,
            eps=config.eps,
            weight_decay=config.weight_decay,
            fused=True,
        )

    def _weight(self, parameter: nn.Parameter) -> nn.Parameter:
        """The parameter, or its float32 copy if it is trained through one."""
        if parameter.dtype in HALF and self.config.master_weights:
            return nn.Parameter(parameter.detach().float())
        return parameter

    def _copies(self) -> Iterator[tuple[nn.Parameter, nn.Parameter]]:
        """Pairs of a parameter and its float32 copy, for those that have one."""
        pairs = zip(self.parameters, self.weights, strict=True)
        return ((parameter, weight) for parameter, weight in pairs if parameter is not weight)

    @phase("backward")
    def backward(self, loss: Tensor, *, last: bool) -> None:
        send = last and self.ranks.size > 1
        if send:
            self.sums.begin()
        with self._handling_gradients(send):
            loss.backward()  # type: ignore[no-untyped-call]

    @contextmanager
    def _handling_gradients(self, send: bool) -> Iterator[None]:
        """A context for a backward pass, in which each gradient is handled when it is computed: that of a half-precision
        parameter is added to the float32 sum and freed, and with `send` the sums go to the other ranks."""

        def handle(weight: nn.Parameter, parameter: Tensor) -> None:
            if parameter is not weight and parameter.grad is not None:
                total, gradient = weight.grad, parameter.grad
                weight.grad = gradient.float() if total is None else total.add_(gradient)
                parameter.grad = None
            if send:
                self.sums.complete(weight)

        pairs = zip(self.parameters, self.weights, strict=True)
        handles = [
            parameter.register_post_accumulate_grad_hook(partial(handle, weight))
            for parameter, weight in pairs
            if send or parameter is not weight
        ]
        try:
            yield
        finally:
            for handle_ in handles:
                handle_.remove()

    @phase("optimiser")
    def step(self) -> dict[str, float]:
        rate = learning_rate(self.config, self.steps, self.total_steps)
        if self.ranks.size > 1:
            self.sums.finish()
        limit = self.config.max_grad_norm or math.inf
        norm = float(torch.nn.utils.clip_grad_norm_(self.weights, limit))
        if not math.isfinite(norm):
            raise NonFiniteError(f"the gradient norm is {norm}")
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        with torch.no_grad():
            for parameter, weight in self._copies():
                parameter.copy_(weight)
        self.discard()
        self.steps += 1
        require_finite_weights(zip(self.names, self.parameters, strict=True))
        return {"grad_norm": norm, "lr": rate}

    def discard(self) -> None:
        if self.sums.open:  # on every rank: sums that have begun are ended together
            self.sums.finish()
        self.optimizer.zero_grad(set_to_none=True)

    def reset_moments(self) -> None:
        zero_moments(self.optimizer)

    def unsharded(self) -> AbstractContextManager[None]:
        return nullcontext()

    def unsharded_on_first_rank(self) -> AbstractContextManager[None]:
        return nullcontext()

    def gather_in_turn(self, needs: Needs) -> Iterator[str]:
        return iter(needs)

    def ready_to_sample(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        """Does nothing: the policy's module was never changed."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Moments as `parameter/moment`, float32 copies as `parameter/weight`, and the number of steps."""
        tensors: dict[str, Tensor] = {}
        for name, parameter, weight in self._named_weights():
            tensors |= {f"{name}/{k}": v for k, v in self.optimizer.state[weight].items()}
            if weight is not parameter:
                tensors[f"{name}/weight"] = weight.detach()
        return tensors, {"steps": self.steps}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, float]) -> None:
        for name, weight in zip(self.names, self.weights, strict=True):
            prefix = f"{name}/"
            state = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            # Another engine may have a copy where this one has none.
            exact = state.pop("weight", None)
            if exact is not None:
                weight.data.copy_(exact)
            self.optimizer.state[weight] = {
                k: v.to(weight.device, copy=True) for k, v in state.items()
            }
        self.steps = int(values["steps"])

    def _named_weights(self) -> Iterator[tuple[str, nn.Parameter, nn.Parameter]]:
        return zip(self.names, self.parameters, self.weights, strict=True)
