"""Gathers weights that ZeRO-3 shards: all for a while, one layer at a time as it runs or is read, on one rank, or permanently."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from vlrft.engine.gathering_groups import group_names
from vlrft.policy.policy_weights import Needs

LEFTOVERS = ("_external_params", "_original_parameters")  # on modules, in addition to ds_*


@contextmanager
def gather_model(engine: Any) -> Iterator[None]:
    """Each rank holds all weights inside the block. The module runs without hooks, so ranks need not run in step."""
    from deepspeed.runtime.zero import GatheredParameters

    parameters = list(engine.module.parameters())
    offload = engine.optimizer.parameter_offload
    _remove_hooks(offload, parameters)
    with GatheredParameters(parameters):
        yield
    offload.setup_zero_stage3_hooks()


@contextmanager
def gather_by_layer(engine: Any) -> Iterator[None]:
    """A layer's weights are gathered while it runs. All ranks must run it together; there must be no backward pass."""
    offload = engine.optimizer.parameter_offload
    _remove_hooks(offload, list(engine.module.parameters()))
    handles = [
        handle
        for unit, parameters in gathering_units(engine.module)
        for handle in _add_gather_hooks(unit, parameters)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        offload.setup_zero_stage3_hooks()


def gather_in_turn(engine: Any, needs: Needs) -> Iterator[str]:
    """The names, each while the parameters that it needs are gathered, together with the others of its layer that are needed."""
    from deepspeed.runtime.zero import GatheredParameters

    offload = engine.optimizer.parameter_offload
    units = [parameters for _, parameters in gathering_units(engine.module)]
    _remove_hooks(offload, list(engine.module.parameters()))  # merging copies a layer
    try:
        for names in group_names(needs, units).values():
            with GatheredParameters(list(dict.fromkeys(p for name in names for p in needs[name]))):
                yield from names
    finally:
        offload.setup_zero_stage3_hooks()


def gathering_units(module: nn.Module) -> Iterator[tuple[nn.Module, list[nn.Parameter]]]:
    """Modules with the parameters gathered for them: those of a whole layer in a list of layers, else a module's direct ones."""
    if isinstance(module, nn.ModuleList):
        yield from ((layer, list(layer.parameters())) for layer in module)
        return
    direct = list(module.parameters(recurse=False))
    if direct:
        yield module, direct
    for child in module.children():
        yield from gathering_units(child)


def _add_gather_hooks(unit: nn.Module, parameters: list[nn.Parameter]) -> tuple[Any, Any]:
    from deepspeed.runtime.zero import GatheredParameters

    weights = GatheredParameters(parameters)

    def begin(*_: Any) -> None:
        weights.__enter__()

    def end(*_: Any) -> None:
        weights.__exit__(None, None, None)

    return unit.register_forward_pre_hook(begin), unit.register_forward_hook(end, always_call=True)


@contextmanager
def gather_on_rank(engine: Any, chosen: bool) -> Iterator[None]:
    """The rank that is `chosen` holds all weights in host memory inside the block; the others keep their shards."""
    from deepspeed.runtime.zero import GatheredParameters

    parameters = list(engine.module.parameters())
    shards = [parameter.data for parameter in parameters]
    copies: list[Tensor] = []
    for parameter in parameters:
        with GatheredParameters([parameter]):
            if chosen:
                copies.append(parameter.data.cpu().clone())
    for parameter, data in zip(parameters, copies, strict=False):
        parameter.data = data
    try:
        yield
    finally:
        for parameter, data in zip(parameters, shards, strict=True):
            parameter.data = data


def restore_module(engine: Any) -> None:
    """Removes DeepSpeed's changes to the module and its parameters; the current weights stay, unsharded."""
    parameters = list(engine.module.parameters())
    with gather_model(engine):
        weights = [parameter.data.clone() for parameter in parameters]
    engine.destroy()
    for module in engine.module.modules():
        _remove_attributes(module)
    for parameter, data in zip(parameters, weights, strict=True):
        for name in list(vars(parameter)):
            delattr(parameter, name)
        parameter.data = data


def _remove_hooks(offload: Any, parameters: list[nn.Parameter]) -> None:
    from deepspeed.runtime.zero.parameter_offload import FWD_MODULE_STACK

    FWD_MODULE_STACK.clear()  # every set of hooks pushes the module once more
    offload._remove_module_hooks()
    offload.forward_hooks.clear()
    offload.backward_hooks.clear()
    for parameter in parameters:
        parameter.ds_active_sub_modules.clear()  # type: ignore[attr-defined]


def _remove_attributes(module: nn.Module) -> None:
    module._parameters = dict(module._parameters)
    for name in [n for n in vars(module) if n.startswith("ds_") or n in LEFTOVERS]:
        delattr(module, name)
