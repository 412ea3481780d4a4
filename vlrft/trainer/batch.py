"""Groups -> the rows of an optimiser step, packed by equal prompts and split into micro-batches.

Rows whose advantages are all zero are left out unless the objective needs them: their gradient is exactly zero. The
denominators still count them, so leaving them out changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray

from vlrft.advantages import Floats
from vlrft.advantages.rows import RowAdvantages
from vlrft.algorithms import Algorithm
from vlrft.distributed.phases import phase
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.memory.micro_batches import Load, split_rows
from vlrft.objectives import LossBatch, Needs, make_loss_batch
from vlrft.policy.packing import PackItem
from vlrft.schema import Group, Pixels, Prompt, TrainingRow
from vlrft.selection.group_filters import is_valid

ImageTokens = Callable[[Pixels], int]
"""The tokens that an image counts for in a micro-batch's budget."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows [B] of one optimiser step, those with equal prompts next to each other, and the inputs of their loss."""

    prompts: tuple[Prompt, ...]  # [B]; equal neighbours share one prefix
    ids: tuple[tuple[int, ...], ...]  # [B] tokens after the prompt
    images: tuple[tuple[Pixels, ...], ...]  # [B] among those tokens
    samples: tuple[str, ...]  # [B] sample ids, for messages
    loss: LossBatch
    temperature: float
    fillers: tuple[PackItem, ...] = ()  # run with the rows and not scored (see `micro_batches.py`)

    def items(self) -> list[PackItem]:
        """Each distinct prompt once with its rows, in row order."""
        return [
            PackItem(
                prompt=self.prompts[rows[0]],
                rows=tuple(self.ids[b] for b in rows),
                images=tuple(self.images[b] for b in rows),
            )
            for rows in self._rows_by_prompt()
        ]

    def _rows_by_prompt(self) -> list[list[int]]:
        pairs = groupby(range(len(self.ids)), key=lambda b: self.prompts[b].key)
        return [list(rows) for _, rows in pairs]

    def take(self, rows: Sequence[int]) -> Batch:
        """These rows only, with the denominators of the whole step."""
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
        """Tokens of the packed forward pass: each prompt once, and each of its rows."""
        return sum(len(i.prompt.ids) + sum(map(len, i.rows)) for i in self.items())

    def distinct_samples(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.samples))

    def micro_batch_rows(self, max_tokens: int, image_tokens: ImageTokens) -> Iterator[list[int]]:
        """The rows of each micro-batch, whose packed and padded forward pass has at most `max_tokens` tokens, images
        included; more only where a single row is longer. See `split_rows`."""
        by_prompt = self._rows_by_prompt()

        def load(tokens: Sequence[int], images: Sequence[Pixels]) -> Load:
            return Load(tokens=len(tokens), images={i.key: image_tokens(i) for i in images})

        prompts = [self.prompts[rows[0]] for rows in by_prompt]
        loads = [[load(self.ids[b], self.images[b]) for b in rows] for rows in by_prompt]
        for micro in split_rows([load(p.ids, p.images) for p in prompts], loads, max_tokens):
            yield [by_prompt[index][k] for index, some in micro for k in some]


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
    """The step's groups distributed over `updates` optimiser steps; each batch has its own denominators.

    `groups`: those of all ranks; a batch has only rows of the groups that this rank played. `max_tokens`: the configured
    maximum length of a completion. Tensors are on the CPU.
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


@dataclass(frozen=True)
class _Row:
    """A training row with its place in the step."""

    row: TrainingRow
    group: int
    rollout: int
    advantages: Floats  # of its action tokens
    sample: str

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(i for piece in self.row.pieces for i in piece.ids)


def make_batch(
    groups: Sequence[Group],
    advantages: Sequence[RowAdvantages],
    algorithm: Algorithm,
    *,
    temperature: float,
    max_tokens: int,
    ranks: Ranks = ALONE,
) -> Batch:
    """The batch of one optimiser step; see `make_batches`."""
    rows: list[_Row] = []
    replayed: list[bool] = []
    number = 0  # of the rollout
    for g, group in enumerate(groups):
        for rollout, by_row in zip(group.rollouts, advantages[g], strict=True):
            pairs = zip(rollout.rows, by_row, strict=True)
            rows += [_Row(row, g, number, values, group.sample.id) for row, values in pairs]
            replayed += [rollout.origin == "replay"] * len(rollout.rows)
            number += 1
    ids = tuple(row.ids for row in rows)
    mask, values, sampled_logprobs = _token_arrays(rows, width=max(map(len, ids), default=0))
    sampled = any(piece.logprobs for row in rows for piece in row.row.pieces)
    loss = make_loss_batch(
        mask=torch.from_numpy(mask),
        advantages=torch.from_numpy(values),
        group=torch.tensor([row.group for row in rows], dtype=torch.long),
        rollout=torch.tensor([row.rollout for row in rows], dtype=torch.long),
        valid=tuple(is_valid(g) for g in groups),
        max_tokens=max_tokens,
        sampled_logprobs=torch.from_numpy(sampled_logprobs) if sampled else None,
        replayed=torch.tensor(replayed, dtype=torch.bool),
    )
    step = Batch(
        prompts=tuple(row.row.prompt for row in rows),
        ids=ids,
        images=tuple(tuple(i for p in row.row.pieces for i in p.images) for row in rows),
        samples=tuple(row.sample for row in rows),
        loss=loss,
        temperature=temperature,
    )
    played_here = [groups[row.group].rank == ranks.rank for row in rows]
    return step.take([b for b in _trained_rows(step, algorithm.needs) if played_here[b]])


def _token_arrays(rows: Sequence[_Row], width: int) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """Action mask, advantages and sampled log-probs [B T]; the last are NaN at action tokens that were not sampled."""
    mask = np.zeros((len(rows), width), dtype=bool)
    advantages, sampled = np.zeros((2, len(rows), width))
    for b, row in enumerate(rows):
        start = 0
        for piece in row.row.pieces:
            end = start + len(piece.ids)
            mask[b, start:end] = piece.sampled
            if piece.logprobs:
                sampled[b, start:end] = piece.logprobs
            elif piece.sampled:
                sampled[b, start:end] = np.nan
            start = end
        advantages[b, mask[b]] = row.advantages
    return mask, advantages, sampled


def _trained_rows(batch: Batch, needs: Needs) -> list[int]:
    """Rows with a gradient, equal prompts next to each other; whole groups where the rows of a group are coupled."""
    trained = batch.loss.mask.any(1)
    if not needs.zero_signal_groups:
        has_signal = (batch.loss.advantages != 0).any(1)
        if needs.group_stats:
            groups = torch.zeros(len(batch.loss.denominators.valid) + 1, dtype=torch.bool)
            groups[batch.loss.group[has_signal]] = True
            has_signal = groups[batch.loss.group]
        trained = trained & has_signal
    first_place: dict[object, int] = {}
    order = [first_place.setdefault(p.key, len(first_place)) for p in batch.prompts]
    indices = [int(i) for i in trained.nonzero()[:, 0]]
    return sorted(indices, key=lambda b: order[b])
