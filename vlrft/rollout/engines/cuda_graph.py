"""A decoding step as a CUDA graph: one launch a token in place of some hundreds.

Not yet proven on a GPU. Without CUDA, with another attention kernel, or where ranks sample together, steps run one operator at a
time. The step that is recorded, `DecodingRows.static_step`, is tested on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vlrft.policy.attention.choice import choose_kernel
from vlrft.policy.attention.cuda_flash import CudaFlash

Step = Callable[[Int[Tensor, " N"]], Float[Tensor, "N V"]]


class GraphedStep:
    """Calls a step that reads and writes the same memory each time. The first call runs it, which also warms it up; the
    second records it; each further call replays the record."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._warm = False
        self._graph: torch.cuda.CUDAGraph | None = None
        self._tokens = torch.empty(0)
        self._logits = torch.empty(0)

    def __call__(self, tokens: Int[Tensor, " N"]) -> Float[Tensor, "N V"]:
        """The logits after `tokens`; valid until the next call."""
        if not self._warm:
            self._warm = True
            return self._step(tokens)
        if self._graph is None:
            self._graph, self._tokens = torch.cuda.CUDAGraph(), tokens.clone()
            with torch.cuda.graph(self._graph):  # records, and computes nothing
                self._logits = self._step(self._tokens)
        self._tokens.copy_(tokens)
        self._graph.replay()
        return self._logits


def can_graph(keys: Float[Tensor, "*S D"]) -> bool:
    """Whether steps over such keys are worth recording: FlashAttention takes the keys' number from the device and reads no
    more of them, while other kernels would compute over the whole room."""
    return keys.is_cuda and isinstance(choose_kernel(keys), CudaFlash)
