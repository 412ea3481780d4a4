"""The same micro-batches on every rank: ranks that hold sharded weights run every forward and backward pass together.

A rank whose rows are used up, and one without an image while another has some, runs a small prompt besides that is not
scored: its gradient is exactly zero, and every rank calls the same modules in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from vlrft.distributed.ranks import Ranks
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.policy.rank_sync import filler_prompt
from vlrft.schema.errors import NonFiniteError
from vlrft.trainer.batch import Batch

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Part:
    """One of the micro-batches that all ranks run at the same time."""

    rows: list[int]  # of this rank's batch; none where it has nothing more to run
    fillers: tuple[PackItem, ...] = ()

    def of(self, batch: Batch) -> Batch:
        return replace(batch.take(self.rows), fillers=self.fillers)


def parts(batch: Batch, max_tokens: int, policy: Policy, ranks: Ranks) -> list[Part]:
    """The batch as `Batch.parts` cuts it, filled up to as many parts as the rank with the most has."""
    own = list(batch.parts(max_tokens))
    if ranks.size == 1:
        return [Part(rows=rows) for rows in own]
    seen = [any(batch.prompts[b].images for b in rows) for rows in own]
    everyone = ranks.gather(seen)
    found: list[Part] = []
    for k in range(max(map(len, everyone))):
        rows = own[k] if k < len(own) else []
        shown = any(flags[k] for flags in everyone if k < len(flags))
        missing = not rows or (shown and not seen[k])
        fillers = (filler(policy, shown),) if missing else ()
        found.append(Part(rows=rows, fillers=fillers))
    return found


def filler(policy: Policy, shown: bool) -> PackItem:
    """A short prompt with one token behind it; with an image where it is `shown` one."""
    return PackItem(prompt=filler_prompt(policy.chat, shown), rows=((policy.chat.pad_id,),))


def agreed(ranks: Ranks, work: Callable[[], T], samples: Sequence[str]) -> T:
    """What `work` gives, which communicates nothing, unless a number is not finite on some rank: then every rank
    raises NonFiniteError with the first one's reason and samples, `samples` where it names none."""
    found: list[T] = []
    broken: NonFiniteError | None = None
    try:
        found.append(work())
    except NonFiniteError as e:
        broken = e
    if not ranks.sum_count(broken is not None):
        return found[0]
    told = [] if broken is None else [(str(broken), broken.samples or tuple(samples))]
    for rank, part in enumerate(ranks.gather(told)):
        for reason, own in part:
            where = f"rank {rank}: " if ranks.size > 1 else ""
            raise NonFiniteError(where + reason, samples=own)
    raise AssertionError("a rank that broke has a reason")
