"""A model's weights as a plain transformers model has them, one tensor at a time: LoRA adapters are merged when a tensor is read,
in a copy of one layer.

    PlainWeights    names and shapes, and the tensors themselves
    write_model     the folder of a transformers model
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vlrft.policy.quantization import is_packed, plain, plain_like, sample_numbers
from vlrft.policy.weight_files import Write, write_weights
from vlrft.schema.errors import ConfigError

CHUNK = 2**18  # numbers of a weight that are compared at once: they stay in the processor's cache


class PlainWeights:
    """The parameters and buffers of a transformers model, or of the one inside a peft model with its adapters merged in. Tied
    weights come once. The model is unchanged.

    Each call of `read` merges again; the share of the adapters' update that survived is summed over its calls.
    """

    def __init__(self, model: Any, *, adapters: bool = True) -> None:
        """`adapters`: whether they are merged; else the weights are the base's."""
        self.adapters = adapters
        self.base = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._sources = dict(_plain_names(self.base))
        self._lost, self._whole = 0.0, 0.0
        self._samples: set[bytes | None] = set()  # of the base of each adapted weight that was read

    @property
    def shapes(self) -> dict[str, Tensor]:
        """Every tensor on the meta device, by its name in the transformers model."""
        return {name: plain_like(tensor) for name, (tensor, _) in self._sources.items()}

    @property
    def kept(self) -> float:
        """The share of the adapters' update that the merged weights hold: 1 − ‖merged − (base + update)‖² / ‖update‖² over all
        weights that were read, from 0 (each weight was rounded back) to 1; 1.0 for an update of zero. bfloat16 has 8 bits of
        precision: it loses an update of a weight by less than 1/512."""
        return 1 - self._lost / self._whole if self._whole else 1.0

    @property
    def base_digest(self) -> str | None:
        """As the function `base_digest`, of the weights that were read."""
        return _digest(self._samples)

    @torch.no_grad()
    def read(self, name: str) -> Tensor:
        """A tensor (detached, not copied), or a merged copy of it; 4-bit weights are dequantized."""
        tensor, layer = self._sources[name]
        if layer is None or not self.adapters:
            return plain(tensor)
        merged = merge_layer(layer)
        attribute = name.rsplit(".", 1)[-1]
        if attribute == "weight":
            self._compare(layer, merged.weight)
            self._samples.add(_sample(layer.get_base_layer().weight))
        return getattr(merged, attribute).detach()  # type: ignore[no-any-return]

    @property
    def needs(self) -> dict[str, tuple[nn.Parameter, ...]]:
        """By the name of each parameter, buffers left out, the model's parameters from which `read` computes it."""
        needs: dict[str, tuple[nn.Parameter, ...]] = {}
        for name, (tensor, layer) in self._sources.items():
            if isinstance(tensor, nn.Parameter):
                merged = () if layer is None or not self.adapters else tuple(layer.parameters())
                needs[name] = merged or (tensor,)
        return needs

    def _compare(self, layer: Any, merged: Tensor) -> None:
        """Adds a merged weight to the sums of `kept`, a part at a time. Differences of neighbours are exact in float32."""
        update = layer.get_delta_weight("default")
        parts = (
            t.reshape(-1).split(CHUNK)
            for t in (merged, plain(layer.get_base_layer().weight), update)
        )
        for new, old, change in zip(*parts, strict=True):
            wide = torch.promote_types(change.dtype, torch.float32)
            difference = new.to(wide, copy=True).sub_(old).sub_(change)
            self._whole += float(torch.linalg.vector_norm(change, dtype=wide)) ** 2
            self._lost += float(torch.linalg.vector_norm(difference)) ** 2


def merge_layer(layer: Any) -> Any:
    """A copy of the base of a layer with adapters, with the adapters added to its weights. 4-bit weights stay unpacked: packed
    again they would lose most of the update."""
    base = layer.get_base_layer()
    if not is_packed(base.weight):
        single = copy.deepcopy(layer)
        single.merge()
        return single.get_base_layer()
    weight = plain(base.weight)
    rows, columns = weight.shape
    merged = nn.Linear(columns, rows, bias=base.bias is not None, device="meta")
    merged.weight = nn.Parameter(weight.add_(layer.get_delta_weight("default")))
    merged.bias = base.bias
    return merged


def _plain_names(base: Any) -> Iterator[tuple[str, tuple[Tensor, Any]]]:
    """(name, (tensor, its layer with adapters or None)) of parameters and persistent buffers; adapters are left out.

    Not from `state_dict()`, before which an engine that shards weights would shard them again.
    """
    layers = {n: m for n, m in base.named_modules() if hasattr(m, "lora_A")}
    for key, tensor in (*base.named_parameters(), *_persistent_buffers(base)):  # tied ones once
        layer = next((n for n in layers if key.startswith(f"{n}.")), None)
        if layer is None:
            yield key, (tensor, None)
        elif key.startswith(base_layer := f"{layer}.base_layer."):
            name = f"{layer}.{key.removeprefix(base_layer)}"
            yield name, (tensor, layers[layer])


def _persistent_buffers(base: Any) -> Iterator[tuple[str, Tensor]]:
    for prefix, module in base.named_modules():
        for name, buffer in module.named_buffers(recurse=False):
            if name not in module._non_persistent_buffers_set:
                yield f"{prefix}.{name}" if prefix else name, buffer


def stored_parameters(model: Any) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The parameters of the model's files on the meta device, by their names on the hub; and the name on the hub of each name in
    the transformers model. Raises ConfigError for a model that stores its parameters fused."""
    weights = PlainWeights(model)
    shapes = weights.shapes
    parameters = {
        n for n, (tensor, _) in weights._sources.items() if isinstance(tensor, nn.Parameter)
    }
    stored = _stored_tensors(weights.base, shapes)
    names = {id(shape): name for name, shape in shapes.items()}
    keys = {names[id(shape)]: key for key, shape in stored.items() if id(shape) in names}
    if missing := sorted(parameters - keys.keys()):
        raise ConfigError(
            [
                f"rollout.engine: {missing[0]} is fused of several tensors in the model's files, so it cannot be sent"
            ]
        )
    return {keys[n]: shapes[n] for n in sorted(parameters)}, {n: keys[n] for n in parameters}


def stored_shapes(model: Any) -> dict[str, Tensor]:
    """Every tensor of the model's files on the meta device, by its name on the hub."""
    weights = PlainWeights(model)
    return _stored_tensors(weights.base, weights.shapes)


def stored_names(model: Any) -> dict[str, str]:
    """The name on the hub of each tensor that is stored as it is, by its name in the model."""
    weights = PlainWeights(model)
    shapes = weights.shapes
    names = {id(shape): name for name, shape in shapes.items()}
    stored = _stored_tensors(weights.base, shapes).items()
    return {names[id(shape)]: key for key, shape in stored if id(shape) in names}


@torch.no_grad()
def base_digest(model: Any, dtype: torch.dtype) -> str | None:
    """The sha256 of a few numbers of each weight that a peft model adapts, in the dtype: it tells a base from another one, or from
    itself after more training. None for a model whose numbers in that dtype are not known: they are narrower, or those
    of weights that were packed without `sample_packed`."""
    layers = (m for m in model.get_base_model().modules() if hasattr(m, "lora_A"))
    return _digest({_sample(layer.get_base_layer().weight, dtype) for layer in layers})


def _sample(weight: Tensor, dtype: torch.dtype | None = None) -> bytes | None:
    """The bytes of some numbers of a weight; None where they are not known in the dtype."""
    numbers = sample_numbers(weight)
    if numbers is None or (dtype and torch.promote_types(numbers.dtype, dtype) != numbers.dtype):
        return None
    exact = numbers.detach().to("cpu", dtype or numbers.dtype)
    return exact.contiguous().view(torch.uint8).numpy().tobytes()


def _digest(samples: Collection[bytes | None]) -> str | None:
    """Of the samples in the order of their bytes: tied weights have several names."""
    known = [sample for sample in samples if sample is not None]
    return sha256(b"".join(sorted(known))).hexdigest() if len(known) == len(samples) else None


@dataclass(frozen=True, kw_only=True)
class WrittenModel:
    """A model's folder. `kept`, `base_digest`: see `PlainWeights`. `stored`: the name in the folder's files of each of the model's parameters
    and buffers that is stored as it is."""

    kept: float
    base_digest: str | None
    stored: Mapping[str, str]


def write_model(model: Any, folder: Path, write: Write | None = None) -> WrittenModel:
    """Writes a folder that transformers loads, with the weights' names on the hub. `write`: writes each file of weights; None:
    `vlrft.policy.weight_files.write_tensors`."""
    weights = PlainWeights(model)
    shapes = weights.shapes
    stored = _stored_tensors(weights.base, shapes)
    names = {id(shape): name for name, shape in shapes.items()}
    if not all(id(shape) in names for shape in stored.values()):
        # transformers computes the stored tensors from several of the model's, as of fused experts
        weights.base.save_pretrained(folder, state_dict={n: weights.read(n) for n in shapes})
        return WrittenModel(kept=weights.kept, base_digest=weights.base_digest, stored={})
    weights.base.save_pretrained(folder, state_dict={})  # all files but the weights
    own = {key: names[id(shape)] for key, shape in stored.items()}
    write_weights(folder, stored, lambda key: weights.read(own[key]), write=write)
    names_of = {name: key for key, name in own.items()}
    return WrittenModel(kept=weights.kept, base_digest=weights.base_digest, stored=names_of)


def _stored_tensors(base: Any, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The model's tensors as files have them: the same ones by other names, unless the model fuses several into one."""
    from transformers.core_model_loading import revert_weight_conversion

    stored: dict[str, Tensor] = revert_weight_conversion(base, dict(tensors))
    return stored
