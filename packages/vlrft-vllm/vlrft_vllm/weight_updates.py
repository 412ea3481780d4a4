"""The weight-transfer backend `vlrft`: new weights from safetensors files, or by broadcast from the trainer.

    vllm serve MODEL --weight-transfer-config '{"backend": "vlrft"}'
    POST /update_weights {"update_info": {"path": "/dev/shm/run/step_7.safetensors"}}

or, after `/init_weight_transfer_engine` has named the trainer's store,

    POST /update_weights {"update_info": {"names": [...], "dtypes": [...], "shapes": [...]}}

The path is a file, or a folder of files. Either way it is all weights of the model by the names of its checkpoint. Weights are
loaded layer by layer (vLLM's layerwise reload), because plain `load_weights` fails on a CPU, where linear layers are packed and
their weights freed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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

from vlrft_vllm.weight_group import WeightGroup
from vlrft_vllm.weight_reader import Weights, open_weights


@dataclass
class Meeting(WeightTransferInitInfo):
    """Where the workers meet the trainer; without an address they meet nobody, and weights come from files."""

    address: str | None = None
    port: int = 0
    size: int = 0  # of the group: the trainer and all workers
    backend: str = "gloo"
    join_seconds: float = 0.0  # for the meeting: the trainer gives up then, too
    seconds: float = 0.0  # for each wait later


@dataclass
class WholeUpdate(WeightTransferUpdateInfo):
    """All weights: in a file, or of these names, in the order in which they are broadcast."""

    path: str | None = None
    names: list[str] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    shapes: list[list[int]] = field(default_factory=list)


class WeightUpdates(WeightTransferEngine[Meeting, WholeUpdate]):
    """Loads whole models.

    A path that cannot be read is refused before any weight changes. Where an update fails later, the layers stay apart, so
    that vLLM ends with an error at the next request in place of mixing old and new weights; the next update repairs them.
    """

    init_info_cls = Meeting
    update_info_cls = WholeUpdate

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.apart = False  # layers have lost their old weights, and are not whole again
        self.group: WeightGroup | None = None

    def init_transfer_engine(self, init_info: Meeting) -> None:
        """Leaves the trainer that it knew, and meets the new one. Raises RuntimeError where that one is not there in time."""
        self.shutdown()
        if init_info.address is not None:
            parallel = self.parallel_config
            worker = parallel.data_parallel_index * parallel.world_size + parallel.rank
            self.group = WeightGroup(
                init_info.address,
                init_info.port,
                init_info.size,
                1 + worker,
                init_info.backend,
                init_info.join_seconds,
                init_info.seconds,
            )

    def start_weight_update(self) -> None:
        """Layers are taken apart when the weights are there, not here: that a file is missing changes nothing."""

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """As the base class, which also synchronises the accelerator: a CPU has none."""
        self.receive_weights(self.parse_update_info(update_info))
        if self.device.type != "cpu":
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: WholeUpdate) -> None:
        """Raises ValueError for files that cannot be read, for a broadcast of a trainer that was not met, and for weights that are
        not all of the model's."""
        with self._open(update_info) as weights:
            if self.apart:  # forget what the update that failed had loaded
                self._join_layers()
            missing = _names(self.model)
            self.apart = True
            initialize_layerwise_reload(self.model)
            missing -= self.model.load_weights(weights)
            # Takes those that the model has no use for: the trainer waits until they are taken.
            deque(weights, maxlen=0)
        if missing:
            names = ", ".join(sorted(missing)[:3])
            place = update_info.path or "the broadcast"
            raise ValueError(f"{place}: lacks {len(missing)} of the weights: {names}")

    @contextmanager
    def _open(self, update_info: WholeUpdate) -> Iterator[Weights]:
        if update_info.path is not None:
            with open_weights(update_info.path) as weights:
                yield weights
            return
        if self.group is None:
            raise ValueError(
                "no trainer was met that could broadcast: /init_weight_transfer_engine comes first"
            )
        try:
            yield self.group.receive(update_info.names, update_info.dtypes, update_info.shapes)
        except BaseException:
            self.shutdown()  # the trainer would wait for the tensors that nobody takes
            raise

    def finish_weight_update(self) -> None:
        """Puts the layers together."""
        self._join_layers()
        _repack_heads(self.model)

    def shutdown(self) -> None:
        """Leaves the trainer; files do not stay open between updates."""
        group, self.group = self.group, None
        if group is not None:
            group.close()

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
