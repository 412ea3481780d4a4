"""The packed layout: a prompt that several rows share is run once.

An item is one prompt with the completions of every row that has it. It becomes one row of the packed batch: the prompt,
then each row's completion, which continues the prompt's positions and attends to the prompt and to itself only. A
completion has several turns where an environment answered; the tokens that it inserted may include images:

    ids        P0 P1 P2 a0 a1 b0
    segment     0  0  0  1  1  2
    positions   0  1  2  3  4  3

A row's last token is not run: nothing is predicted from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from vlrft.distributed.cuda_settings import to_device
from vlrft.policy.attention.compact import count_common_tokens
from vlrft.policy.attention.rows import PackedRows
from vlrft.policy.backbone import Backbone
from vlrft.policy.image_encoder import PromptImages
from vlrft.schema import DataError, Pixels, Prompt


@dataclass(frozen=True, kw_only=True)
class PackItem:
    """A prompt and the completions of the rows that share it."""

    prompt: Prompt
    rows: tuple[tuple[int, ...], ...]  # completion tokens, inserted ones included
    images: tuple[tuple[Pixels, ...], ...] = ()  # of each completion; empty: none has any

    def unpack(self, row: int) -> Prompt:
        """One row: the prompt and a completion."""
        images = self.images[row] if self.images else ()
        return Prompt(
            ids=(*self.prompt.ids, *self.rows[row]), images=(*self.prompt.images, *images)
        )


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A packed batch. Axes: R packed rows, L positions, N tokens whose log-probs are wanted, A rotary axes, and B rows of T
    completion tokens before packing."""

    ids: Int[Tensor, "R L"]
    positions: Int[Tensor, "A R L"]
    rows: PackedRows
    images: PromptImages
    hidden: Int[Tensor, " N"]  # index into [R L] of the hidden state that predicts a wanted token
    targets: Int[Tensor, " N"]  # the wanted tokens
    slots: Int[Tensor, " N"]  # index into [B T] of each

    def to(self, device: torch.device) -> Packed:
        """The batch on a device, its images excepted."""
        names = ("ids", "positions", "hidden", "targets", "slots")
        copies: dict[str, Any] = {name: to_device(getattr(self, name), device) for name in names}
        return replace(self, **copies)


def pack(
    items: Sequence[PackItem], mask: Bool[Tensor, "B T"], backbone: Backbone, *, pad_id: int
) -> Packed:
    """The packed batch of the items, on the CPU. `mask`: the tokens whose log-probs are wanted; tokens after a row's last
    wanted one are left out.

    Raises ValueError when `mask` does not fit the rows, DataError when a prompt's image tokens do not fit its images.
    """
    wanted = _check_mask(items, mask)
    width = mask.shape[1]
    # the end of each row's last wanted token
    ends = np.where(wanted.any(1), width - wanted[:, ::-1].argmax(1), 1)
    parts = [
        _pack_item(item, ends[first : first + len(item.rows)]) for first, item in _firsts(items)
    ]
    longest = max(len(ids) for ids, *_ in parts)
    ids = np.full((len(items), longest), pad_id, dtype=np.int64)
    positions = torch.zeros(backbone.axes, len(items), longest, dtype=torch.long)
    # for each completion token the index into [R L] of the token before it
    before = np.zeros((len(wanted), width), dtype=np.int64)
    for r, ((first, item), (item_ids, _, offsets)) in enumerate(
        zip(_firsts(items), parts, strict=True)
    ):
        ids[r, : len(item_ids)] = item_ids
        reach = int(offsets.max()) + 1
        start = len(item.prompt.ids)
        unpacked = backbone.positions(item.prompt, max(reach - start, 0), f"prompt {r}")
        positions[:, r, : len(offsets)] = unpacked[:, torch.from_numpy(offsets)]
        at = start
        for k, b in enumerate(range(first, first + len(item.rows))):
            count = ends[b] - 1  # tokens of this completion that are run
            if item.images and item.images[k]:
                unpacked = backbone.positions(item.unpack(k), 0, f"row {b}")
                positions[:, r, at : at + count] = unpacked[:, start : start + count]
            before[b, 0] = r * longest + start - 1
            before[b, 1 : ends[b]] = r * longest + np.arange(at, at + count)
            at += count
    rows = [row for item in items for row in item.rows]
    slots = np.flatnonzero(wanted)
    targets = [rows[b][t] for b, t in zip(*divmod(slots, width), strict=True)]
    return Packed(
        ids=torch.from_numpy(ids),
        positions=positions,
        rows=PackedRows(
            segments=tuple(sizes for _, sizes, _ in parts),
            width=longest,
            common=count_common_tokens([item.prompt for item in items], backbone.place_ids),
        ),
        images=backbone.collect_images(
            [_images_of(item, run, backbone) for item, run in _run_tokens(items, ends)]
        ),
        hidden=torch.from_numpy(before.reshape(-1)[slots]),
        targets=torch.tensor(targets, dtype=torch.long),
        slots=torch.from_numpy(slots),
    )


def _run_tokens(
    items: Sequence[PackItem], ends: np.ndarray
) -> list[tuple[PackItem, list[tuple[int, ...]]]]:
    """Each item with the completion tokens that are run."""
    return [
        (item, [row[: ends[first + k] - 1] for k, row in enumerate(item.rows)])
        for first, item in _firsts(items)
    ]


def _images_of(item: PackItem, run: Sequence[tuple[int, ...]], backbone: Backbone) -> Prompt:
    """The item's images in the order of their image tokens: the prompt's, then each completion's. Raises DataError for
    image tokens in a completion that belong to none of its images."""
    images = list(item.prompt.images)
    for k, row in enumerate(run):
        places = sum(map(row.count, backbone.place_ids))
        for image in item.images[k] if item.images else ():
            if places <= 0:  # it is after the last wanted token
                break
            images.append(image)
            places -= image.tokens
        if places:
            raise DataError(
                "image tokens in a completion that belong to none of its images; only prompts and the tokens that "
                "an environment inserts may have images"
            )
    return Prompt(ids=(), images=tuple(images))


def _check_mask(
    items: Sequence[PackItem], mask: Tensor
) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """The mask as an array. Raises ValueError when it does not fit the rows."""
    lengths = np.array([len(row) for item in items for row in item.rows])
    if mask.ndim != 2 or mask.shape[0] != len(lengths):
        raise ValueError(f"mask {tuple(mask.shape)} for {len(lengths)} rows")
    wanted = mask.cpu().numpy()
    beyond = wanted & (np.arange(mask.shape[1]) >= lengths[:, None])
    if beyond.any():
        raise ValueError(f"row {int(beyond.any(1).argmax())}: the mask goes beyond its tokens")
    return wanted


def _firsts(items: Sequence[PackItem]) -> list[tuple[int, PackItem]]:
    """Each item with the number of rows before it."""
    counts = np.cumsum([0, *(len(item.rows) for item in items)])
    return list(zip(counts.tolist(), items, strict=False))


def _pack_item(item: PackItem, ends: np.ndarray) -> tuple[np.ndarray, tuple[int, ...], np.ndarray]:
    """Ids of one packed row, the lengths of its segments, and each token's index in its unpacked row."""
    prompt = len(item.prompt.ids)
    run = [row[: end - 1] for row, end in zip(item.rows, ends, strict=True)]
    ids = np.array([*item.prompt.ids, *(i for row in run for i in row)], dtype=np.int64)
    sizes = (prompt, *map(len, run))
    starts = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
    offsets = np.arange(len(ids)) - starts
    offsets[prompt:] += prompt
    return ids, sizes, offsets
