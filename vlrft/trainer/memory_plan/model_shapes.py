"""A policy's shapes from its config alone: the model is made on torch's `meta` device, where tensors have no storage."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from vlrft.config import PolicyConfig
from vlrft.distributed.device import pick_dtype
from vlrft.memory.shapes import (
    AdapterShape,
    DecoderShape,
    Gradient,
    ModelShape,
    VisionShape,
    WeightBytes,
)
from vlrft.policy.adapters import add_adapter_shapes, base_of
from vlrft.policy.attention.decoder import PACKED
from vlrft.policy.families import VisionFamily, vision_family
from vlrft.policy.meta_model import model_without_weights
from vlrft.policy.policy import Policy
from vlrft.policy.quantization import NF4, packed_bytes, quantized_layers
from vlrft.policy.tiny import build_model
from vlrft.policy.trainable import PEFT_PREFIX, add_lora, freeze, without_adapters
from vlrft.vision.processor import prepare_torchvision

# Linear modules of a layer -> their input: modules with the same input save it once.
INPUTS = {"q_proj": "norm", "k_proj": "norm", "v_proj": "norm", "qkv": "norm"}
INPUTS |= dict.fromkeys(("gate_proj", "up_proj", "gate_up_proj", "fc1", "linear_fc1"), "norm 2")
INPUTS |= dict.fromkeys(("down_proj", "fc2", "linear_fc2"), "product")
NORMS = 2  # of a decoder's layer: before attention and before the MLP
INSTALLED = {PACKED: "sdpa"}  # attention of a loaded decoder -> as a config names it


def load_model_shape(config: PolicyConfig, *, tokenizer: Any, device: str) -> ModelShape:
    """The model as it is trained: dtype, frozen parts, adapters. `tokenizer`: of a built policy.

    Raises ConfigError for a model whose config is not available.
    """
    model = make_meta_model(config, tokenizer)
    with torch.device("meta"):  # of the adapters
        return read_model_shape(model, config, device)


def make_meta_model(config: PolicyConfig, tokenizer: Any) -> Any:
    """The transformers model without storage. `tokenizer`: of a built policy. Raises ConfigError as `load_model_shape`."""
    prepare_torchvision()
    config, _ = base_of(config)
    with torch.device("meta"):
        if config.build is not None:
            return build_model(config.build, tokenizer, 0, "sdpa")
        return model_without_weights(str(config.model), config.trust_remote_code)


def read_model_shape(model: Any, config: PolicyConfig, device: str) -> ModelShape:
    """The shapes of a transformers causal model, whose tensors may be on the meta device; adapters are added to it."""
    model = model.to(planned_dtype(config.dtype, device))
    causal = model
    base, adapter = base_of(config)
    packed = quantized_layers(causal).values() if base.quantization == NF4 else ()
    packed_ids = {id(layer.weight) for layer in packed}
    if config.lora is not None:
        model = add_lora(model, config.lora)
    if adapter is not None:
        model = add_adapter_shapes(model, adapter)
    freeze(model, config.freeze)
    return _shape(
        model,
        causal,
        attention="sdpa" if config.attention == "flash_attention_2" else config.attention,
        checkpointing=config.checkpoints_activations,
        gpu=device.startswith("cuda"),
        packed_ids=packed_ids,
    )


def policy_shape(policy: Policy) -> ModelShape:
    """The shapes of a policy that is loaded; where its weights are sharded, `weights` are those of this rank."""
    causal = without_adapters(policy.model)
    return _shape(
        policy.model,
        causal,
        attention=INSTALLED.get(policy.backbone.attention, policy.backbone.attention),
        checkpointing=any(getattr(m, "gradient_checkpointing", False) for m in causal.modules()),
        gpu=policy.device.type == "cuda",
    )


def _shape(
    model: Any,
    causal: Any,
    *,
    attention: str,
    checkpointing: bool,
    gpu: bool,
    packed_ids: Container[int] = (),
) -> ModelShape:
    """`causal`: the transformers model, which `model` may be an adapted form of. `packed_ids`: of the weights that will be
    held in 4 bits and are not yet."""
    vision = vision_family(causal)
    element = next(model.parameters()).element_size()
    named = [(n.removeprefix(PEFT_PREFIX), p) for n, p in model.named_parameters()]
    text = causal.config.get_text_config()
    heads = text.num_attention_heads
    layer = next(m[0] for m in causal.get_decoder().modules() if isinstance(m, nn.ModuleList))
    head = causal.get_output_embeddings().weight
    kind: Any = attention
    return ModelShape(
        decoder=DecoderShape(
            hidden=text.hidden_size,
            layers=text.num_hidden_layers,
            heads=heads,
            kv_heads=getattr(text, "num_key_value_heads", None) or heads,
            head_dim=getattr(text, "head_dim", None) or text.hidden_size // heads,
            inner=text.intermediate_size,
            vocab=head.shape[0],
            later_norms=max(sum("norm" in name for name, _ in layer.named_children()) - NORMS, 0),
            head_norms=any(name.endswith("q_norm") for name, _ in layer.named_modules()),
            attention=kind,
            gradient=_gradient([p for n, p in named if not _in_vision(n, vision)], named),
            adapters=_adapters(causal.get_decoder(), element),
        ),
        tower=None if vision is None else _tower(causal, vision, named, attention, element),
        weights=_weights(causal, vision, named, packed_ids),
        element=element,
        checkpointing=checkpointing,
        head_trained=head.requires_grad,
        gpu=gpu,
    )


def planned_dtype(name: str, device: str) -> torch.dtype:
    """The dtype that a run uses; a GPU that this machine lacks is assumed to compute in bfloat16."""
    absent = device.startswith("cuda") and not torch.cuda.is_available()
    return torch.bfloat16 if absent and name == "auto" else pick_dtype(name, device)


def _gradient(part: list[nn.Parameter], model: list[tuple[str, nn.Parameter]]) -> Gradient:
    """Whether weights of a part are trained, or gradients only pass through it to others. `model`: by name."""
    trained = {id(p) for n, p in model if ".lora_" not in n and p.requires_grad}
    if any(id(p) in trained for p in part):
        return "all"
    return "flow" if any(p.requires_grad for _, p in model) else "none"


def _tower(
    causal: Any,
    vision: VisionFamily,
    named: list[tuple[str, nn.Parameter]],
    attention: str,
    element: int,
) -> VisionShape:
    blocks = [(n, p) for n, p in named if vision.is_vision(n) and not vision.is_projector(n)]
    projector = [p for n, p in named if vision.is_projector(n)]
    trained = any(p.requires_grad for _, p in blocks)
    return replace(
        vision.tower_shape(causal),
        attention="eager" if attention == "eager" else "sdpa",
        gradient=_gradient([p for _, p in blocks], blocks) if trained else "none",
        projector=any(p.requires_grad for p in projector),
        adapters=_adapters(vision.tower_layers(causal), element),
    )


def _adapters(part: Any, element: int) -> AdapterShape:
    """The adapters of one layer of a part: the last layer that has any."""
    layers: dict[str, list[tuple[str, int, Any]]] = {}
    for name, module in part.named_modules():
        matrices = getattr(module, "lora_A", None)
        matrix = getattr(matrices, "default", None)
        layer = next((word for word in name.split(".") if word.isdigit()), None)
        if matrix is not None and layer is not None and matrix.weight.requires_grad:
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


def _in_vision(name: str, vision: VisionFamily | None) -> bool:
    return vision is not None and vision.is_vision(name)


def _weights(
    causal: Any,
    vision: VisionFamily | None,
    named: list[tuple[str, nn.Parameter]],
    packed: Container[int],
) -> WeightBytes:
    """`packed`: identities of the weights that are held in 4 bits."""
    embedding = causal.get_input_embeddings().weight
    trained = [(n, p) for n, p in named if p.requires_grad]
    sizes = {n: packed_bytes(p.numel()) if id(p) in packed else p.nbytes for n, p in named}
    return WeightBytes(
        total=sum(sizes.values()),
        trained=sum(p.nbytes for _, p in trained),
        embedding=embedding.nbytes if embedding.requires_grad else 0,
        tower=sum(p.nbytes for n, p in trained if _in_vision(n, vision)),
        base=sum(size for n, size in sizes.items() if ".lora_" not in n),
        plain=sum(p.nbytes for n, p in named if ".lora_" not in n),
        adapted=max(
            (m.base_layer.weight.numel() for m in causal.modules() if hasattr(m, "lora_A")),
            default=0,
        ),
        packed=max((p.numel() for _, p in named if id(p) in packed), default=0),
        half=sum(p.nbytes for _, p in trained if p.element_size() == 2),
        sizes=tuple(p.numel() for _, p in trained),
    )
