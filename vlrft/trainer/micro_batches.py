"""Equal numbers of micro-batches on every rank: ranks that hold sharded weights run each forward and backward pass
together.

A rank that has no rows left, or no image where another rank has one, also runs a short filler prompt. The filler is not
scored: its gradient is exactly zero, and every rank calls the same modules in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial

from vlrft.distributed.ranks import Ranks
from vlrft.memory.micro_batches import image_tokens
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.policy.rank_sync import filler_prompt
from vlrft.schema.errors import NonFiniteError
from vlrft.trainer.batch import Batch, ImageTokens
from vlrft.trainer.memory_plan.model_shapes import policy_shape


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """One of the micro-batches that all ranks run at the same time: rows of this rank's batch, and fillers."""

    rows: list[int]  # empty where the rank has no rows left
    fillers: tuple[PackItem, ...] = ()

    def of(self, batch: Batch) -> Batch:
        """The rows of `batch` that are in this micro-batch, with its fillers."""
        return replace(batch.take(self.rows), fillers=self.fillers)


def micro_batches(batch: Batch, max_tokens: int, policy: Policy, ranks: Ranks) -> list[MicroBatch]:
    """The micro-batches of `Batch.micro_batch_rows`, and fillers up to the number of the rank that has the most."""
    parts = list(batch.micro_batch_rows(max_tokens, image_weight(policy)))
    if ranks.size == 1:
        return [MicroBatch(rows=rows) for rows in parts]
    with_images = [any(batch.prompts[b].images for b in rows) for rows in parts]
    all_with_images = ranks.gather(with_images)
    micros: list[MicroBatch] = []
    for k in range(max(map(len, all_with_images))):
        rows = parts[k] if k < len(parts) else []
        some_images = any(flags[k] for flags in all_with_images if k < len(flags))
        missing = not rows or (some_images and not with_images[k])
        fillers = (filler_item(policy, some_images),) if missing else ()
        micros.append(MicroBatch(rows=rows, fillers=fillers))
    return micros


def first_micro_batch(policy: Policy, batch: Batch, max_tokens: int) -> Batch:
    """The first of the micro-batches in which the batch is trained; without rows where the batch has none."""
    return batch.take(next(batch.micro_batch_rows(max_tokens, image_weight(policy)), []))


def image_weight(policy: Policy) -> ImageTokens:
    """The tokens that an image counts as when the policy is trained; see `image_tokens`."""
    if not policy.backbone.multimodal:
        return lambda image: 0
    model = policy_shape(policy)
    by_patches = cache(partial(image_tokens, model))
    return lambda image: by_patches(len(image.values))


def filler_item(policy: Policy, with_image: bool) -> PackItem:
    """A short prompt, with an image or without, and one token after it."""
    return PackItem(prompt=filler_prompt(policy.chat, with_image), rows=((policy.chat.pad_id,),))


@contextmanager
def raising_on_every_rank(ranks: Ranks, batch: Batch) -> Iterator[None]:
    """A context for code that does not communicate: a NonFiniteError on one rank is raised on every rank.

    The error has the message of the first rank that raised it, and the samples of the rows at fault, or all samples of
    that rank's `batch` where the error names no rows.
    """
    error: NonFiniteError | None = None
    try:
        yield
    except NonFiniteError as e:
        error = e
    if not ranks.sum_count(error is not None):
        return
    reasons = [] if error is None else [(str(error), _samples_at_fault(error, batch))]
    for rank, rank_reasons in enumerate(ranks.gather(reasons)):
        for reason, samples in rank_reasons:
            where = f"rank {rank}: " if ranks.size > 1 else ""
            raise NonFiniteError(where + reason, samples=samples)


def _samples_at_fault(error: NonFiniteError, batch: Batch) -> tuple[str, ...]:
    at_fault = tuple(dict.fromkeys(batch.samples[b] for b in error.rows))
    return error.samples or at_fault or batch.distinct_samples()
