"""Weights that ZeRO-3 has sharded, made whole: all for a while, a layer at a time, for one reader, or for good."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

LEFT = ("_external_params", "_original_parameters")  # what DeepSpeed leaves at modules besides ds_*


@contextmanager
def gather_weights(engine: Any) -> Iterator[None]:
    """Within it each rank holds all weights, and the module runs without a hook: ranks need not keep step."""
    from deepspeed.runtime.zero import GatheredParameters

    parameters = list(engine.module.parameters())
    offload = engine.optimizer.parameter_offload
    _unhook(offload, parameters)
    with GatheredParameters(parameters):
        yield
    offload.setup_zero_stage3_hooks()


@contextmanager
def gather_by_layer(engine: Any) -> Iterator[None]:
    """Within it a layer's weights are whole while it runs, which all ranks must do together. Forward passes alone."""
    offload = engine.optimizer.parameter_offload
    _unhook(offload, list(engine.module.parameters()))
    handles = [h for unit, own in units(engine.module) for h in _gathered_while_running(unit, own)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        offload.setup_zero_stage3_hooks()


def units(module: nn.Module) -> Iterator[tuple[nn.Module, list[nn.Parameter]]]:
    """What is gathered at once: a layer of a list of layers, and of other modules their own parameters."""
    if isinstance(module, nn.ModuleList):
        yield from ((layer, list(layer.parameters())) for layer in module)
        return
    own = list(module.parameters(recurse=False))
    if own:
        yield module, own
    for child in module.children():
        yield from units(child)


def _gathered_while_running(unit: nn.Module, own: list[nn.Parameter]) -> tuple[Any, Any]:
    from deepspeed.runtime.zero import GatheredParameters

    weights = GatheredParameters(own)

    def begin(*_: Any) -> None:
        weights.__enter__()

    def end(*_: Any) -> None:
        weights.__exit__(None, None, None)

    return unit.register_forward_pre_hook(begin), unit.register_forward_hook(end, always_call=True)


@contextmanager
def gather_for_reader(engine: Any, reader: bool) -> Iterator[None]:
    """Within it the weights of the `reader` are whole, in the machine's memory; the others' stay as they are."""
    from deepspeed.runtime.zero import GatheredParameters

    parameters = list(engine.module.parameters())
    before = [parameter.data for parameter in parameters]
    kept: list[Tensor] = []
    for parameter in parameters:
        with GatheredParameters([parameter]):
            if reader:
                kept.append(parameter.data.cpu().clone())
    for parameter, data in zip(parameters, kept, strict=False):
        parameter.data = data
    try:
        yield
    finally:
        for parameter, data in zip(parameters, before, strict=True):
            parameter.data = data


def restore_module(engine: Any) -> None:
    """The module as it was before DeepSpeed took it, with the present weights."""
    parameters = list(engine.module.parameters())
    with gather_weights(engine):
        kept = [parameter.data.clone() for parameter in parameters]
    engine.destroy()
    for module in engine.module.modules():
        _plain(module)
    for parameter, data in zip(parameters, kept, strict=True):
        for name in list(vars(parameter)):
            delattr(parameter, name)
        parameter.data = data


def _unhook(offload: Any, parameters: list[nn.Parameter]) -> None:
    from deepspeed.runtime.zero.parameter_offload import FWD_MODULE_STACK

    FWD_MODULE_STACK.clear()  # each set of hooks puts the module on it once more
    offload._remove_module_hooks()
    offload.forward_hooks.clear()
    offload.backward_hooks.clear()
    for parameter in parameters:
        parameter.ds_active_sub_modules.clear()  # type: ignore[attr-defined]


def _plain(module: nn.Module) -> None:
    module._parameters = dict(module._parameters)
    for name in [n for n in vars(module) if n.startswith("ds_") or n in LEFT]:
        delattr(module, name)
