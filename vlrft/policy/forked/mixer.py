"""Recurrent layers that run packed rows: each prompt once, then its completions from a copy of its state.

The module of a layer that mixes its tokens gets another `forward`. Handed `forks` it runs prompts and completions apart;
without, as in transformers' own forward and in decoding, it is as it was. Nothing of a pass outlives the layer's call, so that
activation checkpointing, which calls layers again in the backward pass, computes both parts again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vlrft.policy.attention.rows import PackedRows
from vlrft.policy.forked.layers import continues_states, find_mixers, recurrent_layers
from vlrft.policy.forked.rows import ForkedRows
from vlrft.policy.forked.states import LayerStates
from vlrft.schema.errors import ConfigError

OURS = ("packed", "shared_prefix")  # arguments of vlrft's attention, which kernels may not know


def install_forks(decoder: Any) -> int:
    """Lets the decoder's recurrent layers run packed rows; returns how many it has. Without any it is left as it is.

    Raises ConfigError for layers, or a release of transformers, whose states cannot be forked.
    """
    count = len(recurrent_layers(decoder.config))
    if not count:
        return 0
    if not continues_states():
        import transformers

        raise ConfigError(
            [
                f"policy.model: transformers {transformers.__version__} cannot continue the states of recurrent layers, as "
                "training them needs; pip install 'transformers>=5.23'"
            ]
        )
    if not torch.cuda.is_available():  # it warns of kernels that only a GPU has
        logging.getLogger("transformers.integrations.hub_kernels").setLevel(logging.ERROR)
    mixers = find_mixers(decoder)
    if len(mixers) != count:
        raise ConfigError(
            [
                f"policy.model: {type(decoder).__name__} has {count} recurrent layers, and {len(mixers)} modules that keep a "
                "state as vlrft knows it; use another model"
            ]
        )
    for mixer in mixers:
        if not isinstance(mixer, ForkedMixer):
            kind: Any = type(mixer)
            mixer.__class__ = _forked_class(kind)
    return count


class ForkedMixer:
    """Added to the class of a recurrent layer's module."""

    def forward(
        self,
        hidden_states: Float[Tensor, "B L H"],
        cache_params: Any = None,
        attention_mask: Any = None,
        forks: Forks | None = None,
        **options: Any,
    ) -> Float[Tensor, "B L H"]:
        call: Any = super().forward  # type: ignore[misc]
        options = {name: value for name, value in options.items() if name not in OURS}
        output: Tensor
        if forks is None:
            output = call(
                hidden_states, cache_params=cache_params, attention_mask=attention_mask, **options
            )
            return output

        def run(hidden: Tensor, states: LayerStates, mask: Tensor | None) -> Tensor:
            result: Tensor = call(hidden, cache_params=states, attention_mask=mask, **options)
            return result

        # a cache is filled with prompts alone
        output, states = forks.run(run, hidden_states, fork=cache_params is None)
        if cache_params is not None:
            layer: Any = self
            cache_params.layers[layer.layer_idx] = states
        return output


@cache
def _forked_class(kind: Hashable) -> type:
    """A subclass of a class of modules."""
    assert isinstance(kind, type)
    return type(f"Forked{kind.__name__}", (ForkedMixer, kind), {"__module__": kind.__module__})


class Forks:
    """Runs packed rows in recurrent layers. What they need to know of the rows is made once for all layers."""

    def __init__(self, rows: PackedRows) -> None:
        self.rows = rows
        self.calls = 0
        self._forked: dict[torch.device, ForkedRows] = {}

    def run(
        self,
        mixer: Callable[[Tensor, LayerStates, Tensor | None], Tensor],
        hidden: Float[Tensor, "R L H"],
        *,
        fork: bool,
    ) -> tuple[Float[Tensor, "R L H"], LayerStates]:
        """The layer's output, finite and without meaning at padding, and the states after each prompt. `mixer`: embeddings,
        states that it reads and leaves, and which positions are no padding -> output. `fork`: there may be completions."""
        self.calls += 1
        if hidden.device not in self._forked:
            self._forked[hidden.device] = ForkedRows.of(self.rows, hidden.device)
        rows = self._forked[hidden.device]
        flat = hidden.flatten(0, 1)
        states = LayerStates()
        outputs = [mixer(flat[rows.prompts], states, rows.real)]
        if fork:
            outputs.append(mixer(flat[rows.completions], states.select(rows.prompt), None))
        both = torch.cat([output.flatten(0, 1) for output in outputs])
        return both[rows.places].view(hidden.shape), states

    def check(self, layers: int) -> None:
        """Raises ConfigError where some of the recurrent layers did not fork, so that completions read each other."""
        if self.calls < layers:
            raise ConfigError(
                [
                    f"policy.model: its decoder hands the arguments of its forward to {self.calls} of its {layers} recurrent "
                    "layers, so completions would read each other; use another model"
                ]
            )
