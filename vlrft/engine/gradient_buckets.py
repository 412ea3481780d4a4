"""Gradients summed over the ranks in a few flat buckets, while the backward pass that completes them goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from vlrft.distributed.phases import phase
from vlrft.distributed.ranks import WAIT, Ranks

BUCKET_BYTES = 25 * 2**20  # as torch's DistributedDataParallel
ALIGNMENT = 64  # elements: each gradient in a bucket begins where vectorised kernels can read it


class GradientBuckets:
    """The gradients of weights, summed over the ranks in place.

    Buckets are fixed at the start and the same on every rank. They follow the order in which a backward pass computes
    gradients, the last weight first, and are sent in that order, each as soon as it is complete: so every rank sends the
    same buckets one after another, also where a rank has no gradient for some weight, which counts as zeros.

    On two ranks a sum is that of one tensor at a time, bit for bit. On more, the order in which a collective adds the ranks
    depends on the place in the bucket, so the last bits differ from other sizes of buckets, and never from rank to rank.
    """

    def __init__(
        self, weights: Sequence[nn.Parameter], ranks: Ranks, size: int = BUCKET_BYTES
    ) -> None:
        """`size`: bytes of a bucket; a larger weight has a bucket of its own, which is not copied."""
        self.ranks = ranks
        self.buckets = _split(weights, size)
        self._bucket_of = {id(w): k for k, bucket in enumerate(self.buckets) for w in bucket}
        self._reset()

    def _reset(self) -> None:
        self.open = False  # a last backward pass has begun, and its sums are not finished
        self._complete: set[int] = set()  # ids of weights whose gradients are complete
        self._missing = [len(bucket) for bucket in self.buckets]
        self._given: list[
            Tensor
        ] = []  # of each sent bucket: whether its weights have a gradient here
        self._works: list[Any] = []

    def begin(self) -> None:
        """The step's last backward pass begins: from now on complete gradients are sent."""
        self.open = True

    @torch.no_grad()
    def complete(self, weight: nn.Parameter) -> None:
        """The gradient of a weight is complete on this rank. Sends every bucket whose turn has come.

        Raises RuntimeError for a weight that was complete before: its bucket may be gone.
        """
        if id(weight) in self._complete:
            raise RuntimeError("a weight got a second gradient in one backward pass")
        self._complete.add(id(weight))
        self._missing[self._bucket_of[id(weight)]] -= 1
        while len(self._works) < len(self.buckets) and not self._missing[len(self._works)]:
            self._send(self.buckets[len(self._works)])

    @torch.no_grad()
    def finish(self) -> None:
        """Sends the remaining buckets and waits for all sums. A gradient that no rank has is None again. Sends nothing for a
        step without a backward pass."""
        given_here = any(w.grad is not None for bucket in self.buckets for w in bucket)
        if not self.open and not self.ranks.sum_count(given_here):
            return
        for bucket in self.buckets[len(self._works) :]:
            self._send(bucket)
        with phase(WAIT):
            given = torch.cat(self._given)
            dist.all_reduce(given)
            for work in self._works:
                work.wait()
        weights = [weight for bucket in self.buckets for weight in bucket]
        for weight, count in zip(weights, given.tolist(), strict=True):
            if not count:
                weight.grad = None
        self._reset()

    def _send(self, bucket: Sequence[nn.Parameter]) -> None:
        """Starts the sum of a bucket, in which its gradients are from now on."""
        self._given.append(torch.tensor([w.grad is not None for w in bucket], dtype=torch.int32))
        if len(bucket) == 1 and bucket[0].grad is not None and bucket[0].grad.is_contiguous():
            flat = bucket[0].grad
        else:
            flat = bucket[0].new_zeros(sum(map(_room, bucket)))
            place = 0
            for weight in bucket:
                view = flat[place : place + weight.numel()].view(weight.shape)
                if weight.grad is not None:
                    view.copy_(weight.grad)
                weight.grad = view
                place += _room(weight)
        self._works.append(dist.all_reduce(flat, async_op=True))


def _room(weight: Tensor) -> int:
    """The elements that a gradient takes in a bucket."""
    return -(-weight.numel() // ALIGNMENT) * ALIGNMENT


def _split(weights: Sequence[nn.Parameter], size: int) -> list[list[nn.Parameter]]:
    """Buckets of at most `size` bytes, or of one weight, of one device and dtype each."""
    buckets: list[list[nn.Parameter]] = []
    room = 0
    for weight in reversed(weights):
        needed = _room(weight) * weight.element_size()
        last = buckets[-1][-1] if buckets else None
        alike = last is not None and (last.device, last.dtype) == (weight.device, weight.dtype)
        if not alike or needed > room:
            buckets.append([])
            room = size
        buckets[-1].append(weight)
        room -= needed
    return buckets
