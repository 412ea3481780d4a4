"""The weight-transfer backend `vlrft_file`: reads the new weights from safetensors, of /dev/shm or of a shared folder.

    vllm serve MODEL --weight-transfer-config '{"backend": "vlrft_file"}'
    POST /update_weights {"update_info": {"path": "/dev/shm/run/step_7.safetensors"}}

The path is a file, or a folder of files, with all weights of the model by the names of its checkpoint. Weights are loaded layer
by layer (vLLM's layerwise reload), because plain `load_weights` fails on a CPU, where linear layers are packed and their
weights freed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
from vllm.model_executor.model_loader.reload import (
    finalize_layerwise_reload,
    initialize_layerwise_reload,
)

from vlrft_vllm.weight_reader import open_weights


@dataclass
class FileInit(WeightTransferInitInfo):
    """Nothing to agree on."""


@dataclass
class FileUpdate(WeightTransferUpdateInfo):
    """A whole update."""

    path: str


class FileWeights(WeightTransferEngine[FileInit, FileUpdate]):
    """Loads whole models from files.

    A path that cannot be read is refused before any weight changes. Where an update fails later, the layers stay apart, so
    that vLLM ends with an error at the next request in place of mixing old and new weights; the next update repairs them.
    """

    init_info_cls = FileInit
    update_info_cls = FileUpdate

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.apart = False  # layers have lost their old weights, and are not whole again

    def init_transfer_engine(self, init_info: FileInit) -> None:
        """Does nothing: files need no connection."""

    def start_weight_update(self) -> None:
        """Layers are taken apart when the files are open, not here: that one is missing changes nothing."""

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """As the base class, which also synchronises the accelerator: a CPU has none."""
        self.receive_weights(self.parse_update_info(update_info))
        if self.device.type != "cpu":
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: FileUpdate) -> None:
        """Raises ValueError for files that cannot be read, and for ones that do not have all weights of the model."""
        with open_weights(update_info.path) as weights:
            if self.apart:  # forget what the update that failed had loaded
                self._join_layers()
            missing = _names(self.model)
            self.apart = True
            initialize_layerwise_reload(self.model)
            missing -= self.model.load_weights(weights)
        if missing:
            names = ", ".join(sorted(missing)[:3])
            raise ValueError(f"{update_info.path}: lacks {len(missing)} of the weights: {names}")

    def finish_weight_update(self) -> None:
        """Puts the layers together."""
        self._join_layers()
        _repack_heads(self.model)

    def shutdown(self) -> None:
        """Does nothing: no file stays open between updates."""

    def _join_layers(self) -> None:
        finalize_layerwise_reload(self.model, self.model_config)
        self.apart = False


def _names(model: torch.nn.Module) -> set[str]:
    """The parameters as `load_weights` names them: a tied head has none, and layers with adapters wrap those without."""
    return {name.replace(".base_layer.", ".") for name, _ in model.named_parameters()}


def _repack_heads(model: torch.nn.Module) -> None:
    """Packs the heads again that multiply by a packed copy, as on a CPU.

    The reload repacks a layer when its own weights come. A head that is tied to the embedding has none of its own, and
    would go on with the copy of the old ones: 0.9 nats off, and nothing that vLLM can compare with itself shows it.
    """
    for layer in model.modules():
        if isinstance(layer, ParallelLMHead) and hasattr(layer, "cpu_linear"):
            layer.quant_method.process_weights_after_loading(layer)
