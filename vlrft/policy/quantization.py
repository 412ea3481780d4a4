"""4-bit weights under LoRA: NF4 (QLoRA, Dettmers et al. 2023, arXiv 2305.14314, section 3), held by bitsandbytes.

The linear layers of the decoder are held so, as in QLoRA: block-wise 4-bit numbers, and 8-bit scales of the blocks (double
quantisation). Embeddings and head stay in the model's dtype, as in peft: they are one matrix in tied models, and the head
decides every log-prob. So do norms and biases, which are small, and the vision model, whose accuracy 4 bits cost most.

    quantized_layers     the names of the layers
    loading_options      how transformers quantises them while it reads their weights, one tensor at a time
    settle               a model so loaded, as vlrft uses any other model
    plain, plain_like    a weight as it is computed with, and its shape
    cast_base            the same model in another dtype
    sampled              a few numbers of a weight, by which it is known from another
    packed_bytes         the memory of a weight
"""

from __future__ import annotations

import logging
import math
from typing import Any

import torch
from torch import Tensor, nn

from vlrft.schema.errors import ConfigError

NF4 = "nf4"
BLOCK = 64  # numbers with one scale
SCALES = 256  # scales with one float32 scale of their own
CONSTANTS = 4 * (256 + 16 + 1)  # the codes of scales and numbers, and the mean of the scales
SAMPLED = 64  # numbers of a weight, about, by which it is known from another
DTYPES = (torch.float32, torch.bfloat16)
# On some CPUs its import warns of a package that would speed up what is never called here.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)


def quantized_layers(causal: Any) -> dict[str, nn.Linear]:
    """The linear layers of a transformers causal model that are held in 4 bits, by name: those of its decoder's layers."""
    layers = {id(module) for module in causal.get_decoder().layers.modules()}
    return {
        name: module
        for name, module in causal.named_modules()
        if isinstance(module, nn.Linear) and id(module) in layers
    }


def loading_options(causal: Any, dtype: torch.dtype, device: str) -> dict[str, Any]:
    """Arguments of `from_pretrained` that quantise a model on the device, tensor by tensor. `causal`: the model without
    weights.

    Raises ConfigError where bitsandbytes is missing, and for a dtype that it does not compute in.
    """
    if dtype not in DTYPES:
        raise ConfigError(
            [
                "policy.quantization: nf4 computes in float32 or bfloat16; set policy.dtype to one of them"
            ]
        )
    try:
        import bitsandbytes  # noqa: F401
    except ImportError:
        raise ConfigError(
            ["policy.quantization: nf4 needs bitsandbytes: pip install 'vlrft[quantization]'"]
        ) from None
    from transformers import BitsAndBytesConfig

    packed = quantized_layers(causal)
    others = [n for n, m in causal.named_modules() if isinstance(m, nn.Linear) and n not in packed]
    settings = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=NF4,
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
        llm_int8_skip_modules=others,
    )
    return {"quantization_config": settings, "device_map": {"": device}}


def settle(model: Any) -> None:
    """Makes a model that was loaded with `loading_options` an ordinary one, whose files are those of any model; peft still
    sees by `is_loaded_in_4bit` what its layers are.

    On CPUs with AVX512-BF16 a layer in evaluation mode would pack its weights into another form, in place, whose product is
    rounded to bfloat16 and has no gradient. Sampling and training have to compute alike, so it never does.

    On a CPU the weights that stay plain are views of the mapped files, and each keeps its whole file mapped and resident, the
    packed weights' plain numbers with it. They are copied, so that no file stays.
    """
    del model.config.quantization_config
    model.hf_quantizer = model.quantization_method = None
    for layer in model.modules():
        if hasattr(layer, "support_avx512bf16_for_cpu"):
            layer.support_avx512bf16_for_cpu = False
    for parameter in model.parameters():
        if parameter.device.type == "cpu" and not is_packed(parameter):
            parameter.data = parameter.data.clone()


def is_packed(weight: Tensor) -> bool:
    """Whether a weight is held in 4 bits."""
    return getattr(weight, "quant_state", None) is not None


def plain_like(weight: Tensor) -> Tensor:
    """A tensor on the meta device, of the shape and the dtype that a weight is computed with."""
    if not is_packed(weight):
        return weight.to("meta")
    state: Any = weight.quant_state  # type: ignore[attr-defined]
    return torch.empty(state.shape, dtype=state.dtype, device="meta")


def plain(weight: Tensor) -> Tensor:
    """A weight as it is computed with: itself, detached, or its 4-bit numbers in the model's dtype."""
    if not is_packed(weight):
        return weight.detach()
    from bitsandbytes.functional import dequantize_4bit

    state: Any = weight.quant_state  # type: ignore[attr-defined]
    unpacked: Tensor = dequantize_4bit(weight.data, state)
    return unpacked


def sample_numbers(weight: Tensor) -> Tensor | None:
    """Some numbers of a weight, spread over it; of one that is held in 4 bits those that it had before, None where nobody has
    noted them in its state."""
    if not is_packed(weight):
        flat = weight.detach().reshape(-1)
        return flat[:: max(flat.numel() // SAMPLED, 1)]
    state: Any = weight.quant_state  # type: ignore[attr-defined]
    numbers: Tensor | None = getattr(state, "sampled", None)
    return None if numbers is None else numbers.to(state.dtype)


def cast_base(model: Any, dtype: torch.dtype) -> None:
    """Casts a model, of which the adapters stay as they are; the 4-bit weights are then dequantized to that dtype."""
    for name, parameter in model.named_parameters():
        if is_packed(parameter):
            parameter.quant_state.dtype = dtype
        elif ".lora_" not in name:
            parameter.data = parameter.data.to(dtype)


def packed_bytes(elements: int) -> int:
    """Bytes of a weight of n numbers: n / 2, a byte for each block of 64, 4 for each 256 blocks, and constants."""
    blocks = math.ceil(elements / BLOCK)
    return math.ceil(elements / 2) + blocks + 4 * math.ceil(blocks / SCALES) + CONSTANTS
