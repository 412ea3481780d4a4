"""Makes a model of released size with random weights, in a folder as the hub has it: one tensor in memory at a time."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from zlib import crc32

import torch
from torch import Tensor, nn

from benchmarks.real_size.released_model import Released
from vlrft.policy.merging import stored_shapes
from vlrft.policy.meta_model import model_without_weights
from vlrft.policy.weight_files import write_weights
from vlrft.testing.qwen_tokenizer import qwen_tokenizer
from vlrft.vision.processor import prepare_torchvision

SHARD_BYTES = 4 * 10**9  # of one file on the hub
SPREAD = 0.02  # of the weights


def write_small_files(released: Released, folder: Path, *, tokenizer: bool = True) -> None:
    """Everything but the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    if tokenizer and released.qwen_tokenizer:
        qwen_tokenizer().save_pretrained(folder)
    processor = {**released.image_processor, "processor_class": released.processor}
    files = {
        "config.json": released.config,
        "generation_config.json": released.generation,
        "preprocessor_config.json": processor,
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=2))


def meta_model(folder: Path) -> nn.Module:
    prepare_torchvision()
    with torch.device("meta"):
        model: nn.Module = model_without_weights(str(folder), False).bfloat16()
    return model


def build(released: Released, folder: Path) -> None:
    """Writes the folder, or keeps one that is complete. Each tensor's numbers depend on its name alone."""
    if (folder / "config.json").is_file():
        return
    draft = folder.with_name(f".writing_{folder.name}")
    shutil.rmtree(draft, ignore_errors=True)
    write_small_files(released, draft)
    shapes = stored_shapes(meta_model(draft))
    write_weights(draft, shapes, lambda name: _random(name, shapes[name]), SHARD_BYTES)
    draft.rename(folder)


def _random(name: str, shape: Tensor) -> Tensor:
    """Matrices are normal with a spread of 0.02, scales 1, biases normal with a spread that is as small."""
    if shape.dim() == 1 and name.endswith("weight"):
        return torch.ones(shape.shape, dtype=shape.dtype)
    generator = torch.Generator().manual_seed(crc32(name.encode()))
    numbers = torch.empty(shape.shape, dtype=shape.dtype)
    return numbers.normal_(0, SPREAD, generator=generator)


def count_parameters(model: nn.Module) -> int:
    return sum(math.prod(p.shape) for p in model.parameters())
