"""A decoding step as a CUDA graph: one launch a step in place of over a thousand.

Without CUDA, with another attention kernel, or where ranks sample together, steps run one operator at a time. The step that is
recorded, `DecodingRows.static_step`, is tested on a CPU; `python -m benchmarks.gpu correctness` compares its record on a GPU.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vlrft.distributed.phases import phase, untimed
from vlrft.policy.attention.choice import choose_kernel
from vlrft.policy.attention.cuda_flash import CudaFlash

Step = Callable[[Int[Tensor, " N"]], Float[Tensor, "N V"]]


class GraphedStep:
    """Calls a step that reads and writes the same memory each time. The first call runs it, which also warms it up; the
    second records it; each further call replays the record. Where recording fails, a warning says so and the step runs
    as it is.

    The step is an argument of each call and not kept: the object that it belongs to holds this one, and a cycle of the two
    would keep the caches on the device until Python's garbage collector next runs.
    """

    def __init__(self) -> None:
        self._warm = self._refused = False
        self._graph: torch.cuda.CUDAGraph | None = None
        self._tokens = torch.empty(0)
        self._logits = torch.empty(0)

    def __call__(self, step: Step, tokens: Int[Tensor, " N"]) -> Float[Tensor, "N V"]:
        """The logits after `tokens`; valid until the next call. `step` is the same at each call."""
        if not self._warm:
            self._warm = True
            return step(tokens)
        if self._graph is None and not self._refused:
            self._record(step, tokens)
        if self._graph is None:
            return step(tokens)
        with phase("decode"):
            self._tokens.copy_(tokens)
            self._graph.replay()
        return self._logits

    def _record(self, step: Step, tokens: Int[Tensor, " N"]) -> None:
        """Records the step, which computes nothing."""
        try:
            graph, self._tokens = torch.cuda.CUDAGraph(), tokens.clone()
            # The outer context restores the stream, which the inner one does not where its end fails. Other threads may go
            # on using the device.
            with (
                untimed(),
                torch.cuda.stream(torch.cuda.current_stream()),
                torch.cuda.graph(graph, capture_error_mode="thread_local"),
            ):
                self._logits = step(self._tokens)
            self._graph = graph
        except RuntimeError as e:  # an operator that waits for the device, or too little memory
            self._refused = True
            reason = (str(e).strip().splitlines() or [type(e).__name__])[0]
            warnings.warn(
                f"a decoding step cannot be recorded as a CUDA graph, and sampling is slower without it: {reason}",
                RuntimeWarning,
                stacklevel=2,
            )


def can_graph(keys: Float[Tensor, "*S D"]) -> bool:
    """Whether steps over such keys are worth recording: FlashAttention takes the keys' number from the device and reads no
    more of them, while other kernels would compute over the whole room."""
    return keys.is_cuda and isinstance(choose_kernel(keys), CudaFlash)
