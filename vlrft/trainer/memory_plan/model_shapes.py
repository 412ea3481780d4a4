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
    DecoderShape,
    Gradient,
    ModelShape,
    RecurrentShape,
    VisionShape,
    WeightBytes,
)
from vlrft.policy.adapters import add_adapter_shapes, base_of
from vlrft.policy.attention.decoder import PACKED
from vlrft.policy.families import VisionFamily, vision_family
from vlrft.policy.forked.layers import recurrent_layers
from vlrft.policy.meta_model import model_without_weights
from vlrft.policy.policy import Policy
from vlrft.policy.pretrained import named_dtype
from vlrft.policy.quantization import NF4, packed_bytes, quantized_layers
from vlrft.policy.tiny import build_model
from vlrft.policy.trainable import PEFT_PREFIX, add_lora, freeze, without_adapters
from vlrft.trainer.memory_plan.adapter_shapes import read_adapters
from vlrft.vision.processor import prepare_torchvision

NORMS = 2  # of a decoder's layer: before attention and before the MLP
INSTALLED = {PACKED: "sdpa"}  # attention of a loaded decoder -> as a config names it


def load_model_shape(
    config: PolicyConfig, *, tokenizer: Any, device: str, model: Any = None
) -> ModelShape:
    """The model as it is trained: dtype, frozen parts, adapters. `tokenizer`: of a built policy. `model`: what `make_meta_model`
    returned for the same config, where that is there already; it is changed.

    Raises ConfigError for a model whose config is not available.
    """
    if model is None:
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
    stored = None if config.build is not None else named_dtype(model.config)
    model = model.to(planned_dtype(config.dtype, device, stored))
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
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // heads
    layers = next(m for m in causal.get_decoder().modules() if isinstance(m, nn.ModuleList))
    recurrent = recurrent_layers(text)
    attending = next(k for k in range(len(layers)) if k not in recurrent)
    layer = layers[attending]
    head = causal.get_output_embeddings().weight
    kind: Any = attention
    return ModelShape(
        decoder=DecoderShape(
            hidden=text.hidden_size,
            layers=text.num_hidden_layers,
            heads=heads,
            kv_heads=getattr(text, "num_key_value_heads", None) or heads,
            head_dim=head_dim,
            inner=text.intermediate_size,
            vocab=head.shape[0],
            later_norms=max(sum("norm" in name for name, _ in layer.named_children()) - NORMS, 0),
            head_norms=any(name.endswith("q_norm") for name, _ in layer.named_modules()),
            gated=_is_gated(layer, heads * head_dim),
            recurrent=_read_recurrent(causal.get_decoder()) if recurrent else None,
            attention=kind,
            gradient=_gradient([p for n, p in named if not _in_vision(n, vision)], named),
            adapters=read_adapters(
                causal.get_decoder(), lambda index, name: index not in recurrent
            ),
        ),
        tower=None if vision is None else _tower(causal, vision, named, attention),
        weights=_weights(causal, vision, named, packed_ids),
        element=element,
        checkpointing=checkpointing,
        head_trained=head.requires_grad,
        gpu=gpu,
    )


def planned_dtype(name: str, device: str, stored: torch.dtype | None = None) -> torch.dtype:
    """The dtype that a run uses; a GPU that this machine lacks is assumed to compute in bfloat16."""
    absent = device.startswith("cuda") and not torch.cuda.is_available()
    return torch.bfloat16 if absent and name == "auto" else pick_dtype(name, device, stored)


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
) -> VisionShape:
    blocks = [(n, p) for n, p in named if vision.is_vision(n) and not vision.is_projector(n)]
    projector = [p for n, p in named if vision.is_projector(n)]
    trained = any(p.requires_grad for _, p in blocks)
    return replace(
        vision.tower_shape(causal),
        attention="eager" if attention == "eager" else "sdpa",
        gradient=_gradient([p for _, p in blocks], blocks) if trained else "none",
        projector=any(p.requires_grad for p in projector),
        adapters=read_adapters(vision.tower_layers(causal)),
    )


def _is_gated(layer: Any, query: int) -> bool:
    """Whether the query projection also makes a gate, as wide as the queries."""
    projections = (m for name, m in layer.named_modules() if name.endswith("q_proj"))
    return any(projection.out_features == 2 * query for projection in projections)


def _read_recurrent(decoder: Any) -> RecurrentShape:
    config = decoder.config
    indices = recurrent_layers(config)
    return RecurrentShape(
        layers=len(indices),
        key_heads=config.linear_num_key_heads,
        key_dim=config.linear_key_head_dim,
        value_heads=config.linear_num_value_heads,
        value_dim=config.linear_value_head_dim,
        kernel=config.linear_conv_kernel_dim,
        adapters=read_adapters(decoder, lambda k, name: k in indices and ".mlp." not in name),
        mlp_adapters=read_adapters(decoder, lambda k, name: k in indices and ".mlp." in name),
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
