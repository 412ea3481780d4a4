"""Writes weights as safetensors, one tensor at a time: the files never need a second model in memory.

`safetensors.torch.save_file` takes all tensors of a file at once, so merged weights, or those of a GPU, would all have to be
in host memory. The files are the same, byte for byte: see the format at https://huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import split_torch_state_dict_into_shards
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARD_BYTES = 50 * 10**9  # of one file, as transformers writes them
LENGTH_BYTES = (
    8  # a file begins with the length of its header, which is padded to a multiple of as many
)

Read = Callable[[str], Tensor]
Write = Callable[[Path, Mapping[str, Tensor], Read], object]  # as `write_tensors`


def write_weights(
    folder: Path,
    shapes: Mapping[str, Tensor],
    read: Read,
    shard_bytes: int = SHARD_BYTES,
    write: Write | None = None,
) -> None:
    """Writes model.safetensors, or with more than `shard_bytes` its shards and their index, as the hub names them.

    `shapes`: the tensors by name in the file, on the meta device; `read` returns one of them with its numbers, and is called
    once for each. `write`: writes each file; None: `write_tensors`.
    """
    split = split_torch_state_dict_into_shards(dict(shapes), max_shard_size=shard_bytes)
    for file, names in split.filename_to_tensors.items():
        (write or write_tensors)(folder / file, {name: shapes[name] for name in names}, read)
    if split.is_sharded:
        index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
        (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")


def read_weights(folder: Path, names: Collection[str]) -> dict[str, Tensor]:
    """Tensors that `write_weights` wrote, by their names in the files. Raises KeyError for one that is not there."""
    index = folder / INDEX
    files = dict.fromkeys(names, SINGLE)
    if index.is_file():
        places = json.loads(index.read_text())["weight_map"]
        files = {name: places[name] for name in names}
    tensors: dict[str, Tensor] = {}
    for file in sorted(set(files.values())):
        with safe_open(folder / file, "pt") as stored:
            tensors |= {n: stored.get_tensor(n) for n in names if files[n] == file}
    return tensors


def write_tensors(
    path: Path,
    shapes: Mapping[str, Tensor],
    read: Read,
    observe: Callable[[bytes | memoryview], object] = len,
) -> None:
    """One safetensors file. Wide numbers come first, so that every tensor is aligned. `observe` gets every part of the file
    in order, as the `update` of a hash does."""
    start, places = _lay_out(shapes)
    with path.open("wb") as file:
        file.write(start)
        observe(start)
        for name in places:
            numbers = _numbers(name, read(name), shapes[name])
            file.write(numbers)
            observe(numbers)


def write_stream(
    path: Path, shapes: Mapping[str, Tensor], tensors: Iterable[tuple[str, Tensor]]
) -> None:
    """The same file from tensors in any order, each of which is written as it comes. Raises ValueError where one is missing."""
    start, places = _lay_out(shapes)
    missing = set(places)
    with path.open("wb") as file:
        file.write(start)
        for name, tensor in tensors:
            file.seek(len(start) + places[name])
            file.write(_numbers(name, tensor, shapes[name]))
            missing.discard(name)
    if missing:
        raise ValueError(f"{path}: no tensor {min(missing)}")


def _lay_out(shapes: Mapping[str, Tensor]) -> tuple[bytes, dict[str, int]]:
    """The start of a file, and where each tensor begins after it, in order."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    places: dict[str, int] = {}
    end = 0
    for name in sorted(shapes, key=lambda name: (-shapes[name].element_size(), name)):
        begin, end = end, end + shapes[name].nbytes
        places[name] = begin
        header[name] = {
            "dtype": _dtype_name(shapes[name].dtype),
            "shape": list(shapes[name].shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % LENGTH_BYTES)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text, places


def _numbers(name: str, tensor: Tensor, shape: Tensor) -> memoryview:
    """The tensor's bytes; they are copied only from another device, or where they are not in order."""
    if (tensor.dtype, tensor.shape) != (shape.dtype, shape.shape):
        raise ValueError(f"{name}: {tensor.dtype} {tuple(tensor.shape)} in place of {shape}")
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


@cache
def _dtype_name(dtype: torch.dtype) -> str:
    """`BF16`: the name of a dtype in the format, as the library writes it."""
    content = save({"x": torch.empty(0, dtype=dtype)})
    size = int.from_bytes(content[:LENGTH_BYTES], "little")
    name: str = json.loads(content[LENGTH_BYTES : LENGTH_BYTES + size])["x"]["dtype"]
    return name
