"""A policy's weights as shards of FSDP2, and complete again in the policy's own modules.

FSDP2 changes the modules that it is applied to: their classes, their hooks, their parameters. It is applied to a copy of
the policy's modules, so that the policy's own stay as they are, and sampling runs them without hooks. While the weights
are sharded the policy's parameters are empty.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from vlrft.engine.gathering_groups import group_names
from vlrft.policy.policy import Policy
from vlrft.policy.policy_weights import Needs

HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, kw_only=True)
class Sharding:
    """How weights are sharded. `mesh`: of all ranks."""

    mesh: Any
    float32_copies: bool  # half-precision weights that are trained are kept in float32 and gathered in half precision
    reshard_after_forward: bool
    reduce_dtype: (
        torch.dtype | None
    )  # of gradients while they are summed over the ranks; None: their own
    offload: bool


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Weights that are gathered at once: those of a layer, or all others. `module` is in the copy, and so are `places`: for
    each weight a module and the name of its parameter. `originals` are the policy's parameters in the same order."""

    module: Any  # an FSDPModule
    places: tuple[tuple[nn.Module, str], ...]
    originals: tuple[nn.Parameter, ...]

    def gather(self) -> list[Tensor]:
        """The weights, complete on every rank until `release`. All ranks call it."""
        self.module.unshard()
        return [module.get_parameter(name).detach() for module, name in self.places]

    def fill(self) -> None:
        """Puts the gathered weights into the policy's parameters."""
        for original, weight in zip(self.originals, self.gather(), strict=True):
            original.data = weight

    def release(self) -> None:
        """Frees what was gathered."""
        self.module.reshard()
        for original in self.originals:
            original.data = original.data.new_empty(0)


def shard(policy: Policy, sharding: Sharding) -> tuple[Policy, tuple[Unit, ...]]:
    """A copy of the policy whose scorer gathers a unit's weights while it runs, and its units. Empties the policy's
    parameters."""
    policy.cache_banned_tokens()
    shared = [*policy.model.parameters(), *policy.model.buffers()]
    sharded = Policy(copy.deepcopy(policy.model, {id(t): t for t in shared}), policy.chat)
    sharded.backbone.keeps_features = False  # the tower runs on every rank or on none
    modules = [*_layers(sharded.model), cast(nn.Module, sharded.own_scorer)]
    units = tuple(_shard_unit(module, sharding) for module in modules)
    # The embeddings and the head, which the backward pass needs first, stay complete after the forward pass.
    units[-1].module.set_reshard_after_forward(False, recurse=False)
    return sharded, units


def _layers(module: nn.Module) -> Iterator[nn.Module]:
    """The layers of the decoder and of the vision model: members of the outermost lists that have parameters."""
    if isinstance(module, nn.ModuleList):
        yield from (layer for layer in module if any(True for _ in layer.parameters()))
        return
    for child in module.children():
        yield from _layers(child)


def _shard_unit(module: nn.Module, sharding: Sharding) -> Unit:
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor import DTensor

    found = {
        parameter: (inner, name)
        for inner in module.modules()
        for name, parameter in inner.named_parameters(recurse=False)
        if not isinstance(parameter, DTensor)
    }
    kinds = [parameter.dtype for parameter in found]
    copied = [p for p in found if sharding.float32_copies and p.requires_grad and p.dtype in HALF]
    for parameter in copied:
        parameter.data = parameter.data.float()
    precision = MixedPrecisionPolicy(
        param_dtype=kinds[0] if copied else None,
        reduce_dtype=sharding.reduce_dtype,
        cast_forward_inputs=False,
    )
    options: dict[str, Any] = {}
    if sharding.offload:
        options["offload_policy"] = CPUOffloadPolicy(pin_memory=torch.cuda.is_available())
    fully_shard(
        module,
        mesh=sharding.mesh,
        reshard_after_forward=sharding.reshard_after_forward,
        mp_policy=precision,
        **options,
    )
    wrapped = cast(Any, module)
    wrapped.set_gradient_divide_factor(1.0)  # gradients are summed; FSDP2 would average them
    wrapped.set_force_sum_reduction_for_comms(True)
    for parameter, kind in zip(found, kinds, strict=True):
        parameter.data = torch.empty(0, dtype=kind, device=parameter.device)
    return Unit(module=module, places=tuple(found.values()), originals=tuple(found))


@contextmanager
def gather_all(units: tuple[Unit, ...]) -> Iterator[None]:
    """Every rank holds all weights in the policy's own modules inside the block, and may run them on its own."""
    try:
        for unit in units:
            unit.fill()
        yield
    finally:
        for unit in units:
            unit.release()


def gather_in_turn(units: tuple[Unit, ...], needs: Needs) -> Iterator[str]:
    """The names, each while every rank holds the units with the parameters that it needs in the policy's own modules."""
    groups = group_names(needs, [unit.originals for unit in units])
    for held_by, names in groups.items():
        with gather_all(tuple(units[k] for k in held_by)):
            yield from names


@contextmanager
def gather_on_rank(units: tuple[Unit, ...], chosen: bool) -> Iterator[None]:
    """The rank that is `chosen` holds all weights in host memory inside the block; the others have none."""
    copies: list[Tensor] = []
    for unit in units:
        weights = unit.gather()
        if chosen:
            copies += [weight.to("cpu", copy=True) for weight in weights]
        unit.release()
    originals = [original for unit in units for original in unit.originals]
    places = [original.device for original in originals]
    for original, weight in zip(originals, copies, strict=False):
        original.data = weight
    try:
        yield
    finally:
        for original, device in zip(originals, places, strict=True):
            original.data = torch.empty(0, dtype=original.dtype, device=device)


def restore(units: tuple[Unit, ...]) -> None:
    """Puts the complete weights back into the policy's parameters for good."""
    for unit in units:
        weights = [weight.clone() for weight in unit.gather()]
        unit.release()
        for original, weight in zip(unit.originals, weights, strict=True):
            original.data = weight
