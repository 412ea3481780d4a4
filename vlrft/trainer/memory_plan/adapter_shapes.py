"""The LoRA adapters of a model's layers: their shapes, and the inputs that they save."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vlrft.memory.shapes import AdapterShape

# Linear modules of a layer -> their input: modules with the same input save it once.
INPUTS = {"q_proj": "norm", "k_proj": "norm", "v_proj": "norm", "qkv": "norm"}
INPUTS |= dict.fromkeys(("gate_proj", "up_proj", "gate_up_proj", "fc1", "linear_fc1"), "norm 2")
INPUTS |= dict.fromkeys(("down_proj", "fc2", "linear_fc2"), "product")
INPUTS |= dict.fromkeys(("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"), "norm")
INPUTS |= {"out_proj": "mixed"}


def read_adapters(
    part: Any, chosen: Callable[[int, str], bool] = lambda layer, name: True
) -> AdapterShape:
    """The adapters of one layer of a part: the last layer that has any. `chosen`: which of them count, by the layer's index and
    the module's name."""
    layers: dict[str, list[tuple[str, int, Any]]] = {}
    for name, module in part.named_modules():
        matrices = getattr(module, "lora_A", None)
        matrix = getattr(matrices, "default", None)
        layer = next((word for word in name.split(".") if word.isdigit()), None)
        if layer is None or not chosen(int(layer), name):
            continue
        if matrix is not None and matrix.weight.requires_grad:
            layers.setdefault(layer, []).append((name.split(".")[-1], matrix.in_features, matrix))
    if not layers:
        return AdapterShape()
    last = layers[max(layers, key=int)]
    distinct = {INPUTS[name]: width for name, width, _ in last if name in INPUTS}
    return AdapterShape(
        rank=last[0][2].out_features,
        # peft casts adapters of a half-precision model to float32, on the meta device too
        element=last[0][2].weight.element_size(),
        inputs=tuple(width for _, width, _ in last),
        distinct=sum(distinct.values()),
    )
