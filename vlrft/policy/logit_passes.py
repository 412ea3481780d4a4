"""The passes over the logits [n, V] of a chunk that their log-probs, entropies and gradients take; they cost as much as they read
and write.

`InPlace` makes few of them with torch's operators. On a GPU `Fused` has torch.compile make one of each function: two reads
and one write in all. On a CPU the same functions are tested without it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

Values = tuple[Float[Tensor, " n"], Float[Tensor, " n"], Float[Tensor, " n"]]


@runtime_checkable
class Passes(Protocol):
    """Both functions compute in float32 at least, with z = logits · scale, and may overwrite the logits."""

    def values(
        self, logits: Float[Tensor, "n V"], targets: Int[Tensor, " n"], scale: float
    ) -> Values:
        """log-softmax(z) at the targets, whose logits are finite, the entropy and log Z."""
        ...

    def gradient(
        self,
        logits: Float[Tensor, "n V"],
        targets: Int[Tensor, " n"],
        scale: float,
        total: Float[Tensor, " n"],
        outer: Float[Tensor, " n"],
        of_target: Float[Tensor, " n"],
    ) -> Float[Tensor, "n V"]:
        """−outer · exp(z − total), plus `of_target` at the targets, in the dtype of the logits."""
        ...


def choose_passes(device: torch.device) -> Passes:
    return compile_fused() if device.type == "cuda" else InPlace()


class InPlace:
    """See `Passes`."""

    def values(
        self, logits: Float[Tensor, "n V"], targets: Int[Tensor, " n"], scale: float
    ) -> Values:
        """Four passes; one more in half precision."""
        z = _wide(logits, scale)
        del logits
        at = targets[:, None]
        chosen = z.gather(1, at)[:, 0]
        every = z.log_softmax(1)
        del z
        logprobs = every.gather(1, at)[:, 0]
        p = every.exp_()
        return logprobs, torch.special.entr(p, out=p).sum(1), chosen - logprobs

    def gradient(
        self,
        logits: Float[Tensor, "n V"],
        targets: Int[Tensor, " n"],
        scale: float,
        total: Float[Tensor, " n"],
        outer: Float[Tensor, " n"],
        of_target: Float[Tensor, " n"],
    ) -> Float[Tensor, "n V"]:
        """Three passes; two more in half precision."""
        kind = logits.dtype
        z = _wide(logits, scale)
        del logits
        of_z = z.sub_(total[:, None]).exp_().mul_(-outer[:, None])
        of_z.scatter_add_(1, targets[:, None], of_target[:, None])
        return of_z.to(kind)


def _wide(logits: Tensor, scale: float) -> Tensor:
    """logits · scale in float32 at least."""
    if logits.dtype.itemsize >= torch.float32.itemsize:
        return logits if scale == 1 else logits.mul_(scale)
    if scale == 1:
        return logits.float()
    return logits * logits.new_full((1,), scale, dtype=torch.float32)


def values_at_once(
    logits: Float[Tensor, "n V"], targets: Int[Tensor, " n"], scale: Float[Tensor, ""]
) -> Values:
    """`Passes.values` for a compiler that fuses operators: nothing is overwritten."""
    z = logits.to(scale.dtype) * scale
    total = z.logsumexp(1)
    logprobs = z.gather(1, targets[:, None])[:, 0] - total
    # H = log Z − Σ p z, banned tokens (p = 0, z = −inf) left out
    finite = torch.where(z == -torch.inf, 0.0, z)
    return logprobs, total - ((z - total[:, None]).exp() * finite).sum(1), total


def gradient_at_once(
    logits: Float[Tensor, "n V"],
    targets: Int[Tensor, " n"],
    scale: Float[Tensor, ""],
    total: Float[Tensor, " n"],
    outer: Float[Tensor, " n"],
    of_target: Float[Tensor, " n"],
) -> Float[Tensor, "n V"]:
    """`Passes.gradient` for a compiler that fuses operators: nothing is overwritten."""
    p = (logits.to(scale.dtype) * scale - total[:, None]).exp()
    columns = torch.arange(logits.shape[1], device=logits.device)
    at_target = torch.where(columns == targets[:, None], of_target[:, None], 0.0)
    return (at_target - outer[:, None] * p).to(logits.dtype)


class Fused:
    """See `Passes`. Where torch.compile fails, a warning says so once and `InPlace` does the work."""

    def __init__(self, compile_function: Callable[..., Any]) -> None:
        """`compile_function`: torch.compile."""
        self._compiled: tuple[Any, Any] | None = (
            compile_function(values_at_once, dynamic=True),
            compile_function(gradient_at_once, dynamic=True),
        )

    def values(
        self, logits: Float[Tensor, "n V"], targets: Int[Tensor, " n"], scale: float
    ) -> Values:
        """One call."""
        arguments = (logits, targets, _scale_tensor(logits, scale))
        result: Values | None = self._run(0, arguments)
        return InPlace().values(logits, targets, scale) if result is None else result

    def gradient(
        self,
        logits: Float[Tensor, "n V"],
        targets: Int[Tensor, " n"],
        scale: float,
        total: Float[Tensor, " n"],
        outer: Float[Tensor, " n"],
        of_target: Float[Tensor, " n"],
    ) -> Float[Tensor, "n V"]:
        """One call."""
        rest = (total, outer, of_target)
        result: Tensor | None = self._run(1, (logits, targets, _scale_tensor(logits, scale), *rest))
        return InPlace().gradient(logits, targets, scale, *rest) if result is None else result

    def _run(self, which: int, arguments: tuple[Tensor, ...]) -> Any:
        """The result of a compiled function; None where there is none."""
        if self._compiled is None:
            return None
        try:
            return self._compiled[which](*arguments)
        except torch.cuda.OutOfMemoryError:
            raise
        except Exception as e:  # the compiler needs a C compiler, Triton and a GPU that it knows
            self._compiled = None
            reason = (str(e).strip().splitlines() or [type(e).__name__])[0]
            warnings.warn(
                f"torch.compile failed for the log-probs, which are slower without it: {reason}",
                RuntimeWarning,
                stacklevel=2,
            )
            return None


def _scale_tensor(logits: Tensor, scale: float) -> Tensor:
    """A number as a tensor: another one does not compile the function again."""
    kind = torch.promote_types(logits.dtype, torch.float32)
    return logits.new_full((), scale, dtype=kind)


@cache
def compile_fused() -> Fused:
    """Fused passes, which are compiled at the first call."""
    return Fused(torch.compile)
