"""Groups -> the rows of an optimiser step, packed by equal prompts, split into mini- and micro-batches.

Rows whose advantages are all zero are left out unless the method needs them: their gradient is exactly zero. The
denominators count them all the same, so leaving them out changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from vlrft.advantages import Floats
from vlrft.advantages.rows import RowAdvantages
from vlrft.algorithms import Algorithm
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.memory.workload import split_rows
from vlrft.objectives import LossBatch, Needs, make_loss_batch
from vlrft.policy.packing import PackItem
from vlrft.schema import Group, Pixels, Prompt, TrainingRow
from vlrft.selection.group_filters import is_valid
from vlrft.tracing.phases import phase


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows [B] in an order in which equal prompts are neighbours, and what the objective reads of them."""

    prompts: tuple[Prompt, ...]  # [B]; equal neighbours share one prefix
    ids: tuple[tuple[int, ...], ...]  # [B] own tokens of each row
    images: tuple[tuple[Pixels, ...], ...]  # [B] among those tokens
    samples: tuple[str, ...]  # [B] sample ids, for messages
    loss: LossBatch
    temperature: float
    fillers: tuple[PackItem, ...] = ()  # run with the rows and not scored (see `lockstep`)

    def items(self) -> list[PackItem]:
        """Each distinct prompt once with its rows, in row order."""
        return [
            PackItem(
                prompt=self.prompts[run[0]],
                rows=tuple(self.ids[b] for b in run),
                images=tuple(self.images[b] for b in run),
            )
            for run in self._runs_of_equal_prompts()
        ]

    def take(self, rows: Sequence[int]) -> Batch:
        """The given rows; denominators stay those of the whole step."""
        length = max((len(self.ids[b]) for b in rows), default=0)
        return replace(
            self,
            prompts=tuple(self.prompts[b] for b in rows),
            ids=tuple(self.ids[b] for b in rows),
            images=tuple(self.images[b] for b in rows),
            samples=tuple(self.samples[b] for b in rows),
            loss=self.loss.rows(torch.tensor(rows, dtype=torch.long), length),
        )

    @property
    def tokens(self) -> int:
        """Tokens of the packed forward: each prompt once, each row's own."""
        return sum(len(i.prompt.ids) + sum(map(len, i.rows)) for i in self.items())

    def distinct_samples(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.samples))

    def micro_batches(self, max_tokens: int) -> Iterator[Batch]:
        """Parts of the batch, a micro-batch each."""
        return (self.take(rows) for rows in self.parts(max_tokens))

    def parts(self, max_tokens: int) -> Iterator[list[int]]:
        """Rows whose packed and padded forward stays within `max_tokens` where a single row allows it."""
        runs = self._runs_of_equal_prompts()
        prompts = [len(self.prompts[run[0]].ids) for run in runs]
        lengths = [[len(self.ids[b]) for b in run] for run in runs]
        for micro in split_rows(prompts, lengths, max_tokens):
            yield [runs[index][k] for index, some in micro for k in some]

    def _runs_of_equal_prompts(self) -> list[list[int]]:
        """Rows, neighbours with equal prompts together."""
        pairs = groupby(range(len(self.ids)), key=lambda b: self.prompts[b].key)
        return [list(run) for _, run in pairs]


@phase("batch")
def make_batches(
    groups: Sequence[Group],
    advantages: Sequence[RowAdvantages],
    algorithm: Algorithm,
    *,
    temperature: float,
    max_tokens: int,
    updates: int = 1,
    ranks: Ranks = ALONE,
) -> list[Batch]:
    """The step's groups dealt out over `updates` optimiser steps; each batch has its own denominators.

    `groups` are those of all ranks, the rows of a batch those that this rank played. `max_tokens`: the configured
    longest completion. Tensors are on the CPU.
    """
    return [
        make_batch(
            groups[k::updates],
            advantages[k::updates],
            algorithm,
            temperature=temperature,
            max_tokens=max_tokens,
            ranks=ranks,
        )
        for k in range(min(updates, len(groups)))
    ]


def make_batch(
    groups: Sequence[Group],
    advantages: Sequence[RowAdvantages],
    algorithm: Algorithm,
    *,
    temperature: float,
    max_tokens: int,
    ranks: Ranks = ALONE,
) -> Batch:
    """One optimiser step's batch; see `make_batches`."""
    rows: list[tuple[TrainingRow, int, int, Floats, str]] = []
    replayed: list[bool] = []
    rollout = 0
    for g, group in enumerate(groups):
        for one, own in zip(group.rollouts, advantages[g], strict=True):
            pairs = zip(one.rows, own, strict=True)
            rows += [(s, g, rollout, a, group.sample.id) for s, a in pairs]
            replayed += [one.origin == "replay"] * len(one.rows)
            rollout += 1
    ids = [tuple(i for p in row.pieces for i in p.ids) for row, *_ in rows]
    width = max(map(len, ids), default=0)
    mask = np.zeros((len(rows), width), dtype=bool)
    sampled, spread = np.zeros((2, len(rows), width))
    for b, (row, _, _, own_tokens, _) in enumerate(rows):
        at = 0
        for piece in row.pieces:
            end = at + len(piece.ids)
            mask[b, at:end] = piece.sampled
            if piece.logprobs:
                sampled[b, at:end] = piece.logprobs
            elif piece.sampled:
                sampled[b, at:end] = np.nan  # given, not sampled
            at = end
        spread[b, mask[b]] = own_tokens
    loss = make_loss_batch(
        mask=torch.from_numpy(mask),
        advantages=torch.from_numpy(spread),
        group=torch.tensor([g for _, g, *_ in rows], dtype=torch.long),
        rollout=torch.tensor([r for _, _, r, *_ in rows], dtype=torch.long),
        valid=tuple(is_valid(g) for g in groups),
        max_tokens=max_tokens,
        sampled_logprobs=torch.from_numpy(sampled)
        if any(p.logprobs for row, *_ in rows for p in row.pieces)
        else None,
        replayed=torch.tensor(replayed, dtype=torch.bool),
    )
    whole = Batch(
        prompts=tuple(row.prompt for row, *_ in rows),
        ids=tuple(ids),
        images=tuple(tuple(i for p in row.pieces for i in p.images) for row, *_ in rows),
        samples=tuple(s for *_, s in rows),
        loss=loss,
        temperature=temperature,
    )
    here = [groups[g].rank == ranks.rank for _, g, *_ in rows]
    return whole.take([b for b in _trained_rows(whole, algorithm.needs) if here[b]])


def _trained_rows(batch: Batch, needs: Needs) -> list[int]:
    """Rows that have something to learn from, equal prompts side by side; whole groups where rows depend on others."""
    taught = batch.loss.mask.any(1)
    if not needs.zero_signal_groups:
        moves = (batch.loss.advantages != 0).any(1)
        if needs.group_stats:
            groups = torch.zeros(len(batch.loss.denominators.valid) + 1, dtype=torch.bool)
            groups[batch.loss.group[moves]] = True
            moves = groups[batch.loss.group]
        taught = taught & moves
    seen: dict[object, int] = {}
    order = [seen.setdefault(p.key, len(seen)) for p in batch.prompts]
    return sorted(_true(taught), key=lambda b: order[b])


def _true(flags: Tensor) -> list[int]:
    return [int(i) for i in flags.nonzero()[:, 0]]
