"""The packed layout: prompts that several rows share are paid for once.

An item is one prompt with the own tokens of every row that has it. It becomes one row of the packed batch: the prompt,
then each row's own tokens, each continuing the prompt's positions and attending to the prompt and to itself only. What
an environment inserted among them may hold images, too:

    ids        P0 P1 P2 a0 a1 b0
    segments    0  0  0  1  1  2          (-1: padding)
    positions   0  1  2  3  4  3

A row's last token is never fed: nothing is predicted from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from vlrft.policy.backbone import Backbone, PromptImages
from vlrft.schema import DataError, Pixels, Prompt


@dataclass(frozen=True, kw_only=True)
class PackItem:
    """A prompt and the own tokens of the rows that share it."""

    prompt: Prompt
    rows: tuple[tuple[int, ...], ...]
    images: tuple[tuple[Pixels, ...], ...] = ()  # of each row's own tokens; empty: none has any

    def unpack(self, row: int) -> Prompt:
        """A row behind its prompt, unpacked."""
        images = self.images[row] if self.images else ()
        return Prompt(
            ids=(*self.prompt.ids, *self.rows[row]), images=(*self.prompt.images, *images)
        )


@dataclass(frozen=True, kw_only=True)
class Packed:
    """Axes: R packed rows, L positions, N scored tokens. `hidden` and `slots` index flattened [R L] and [B T]."""

    ids: Int[Tensor, "R L"]
    positions: Int[Tensor, "A R L"]
    segments: Int[Tensor, "R L"]
    images: PromptImages
    hidden: Int[Tensor, " N"]  # where the state stands that predicts a scored token
    targets: Int[Tensor, " N"]
    slots: Int[Tensor, " N"]  # where its log-prob goes

    def to(self, device: torch.device) -> Packed:
        names = ("ids", "positions", "segments", "hidden", "targets", "slots")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})


def pack(
    items: Sequence[PackItem], mask: Bool[Tensor, "B T"], backbone: Backbone, *, pad_id: int
) -> Packed:
    """Lays out the items; tokens behind a row's last scored one are left out. Tensors are on the CPU.

    Raises ValueError when `mask` and the rows do not fit, DataError for a prompt whose images do not.
    """
    wanted = _fitting(items, mask)
    width = mask.shape[1]
    ends = np.where(
        wanted.any(1), width - wanted[:, ::-1].argmax(1), 1
    )  # behind the last scored token
    parts = [_lay(item, ends[first : first + len(item.rows)]) for first, item in _firsts(items)]
    longest = max(len(ids) for ids, *_ in parts)
    ids = np.full((len(items), longest), pad_id, dtype=np.int64)
    segments = np.full((len(items), longest), -1, dtype=np.int64)
    positions = torch.zeros(backbone.axes, len(items), longest, dtype=torch.long)
    before = np.zeros(
        (len(wanted), width), dtype=np.int64
    )  # flat place of the token before each own token
    for r, ((first, item), (own_ids, own_segments, offsets)) in enumerate(
        zip(_firsts(items), parts, strict=True)
    ):
        ids[r, : len(own_ids)] = own_ids
        segments[r, : len(own_ids)] = own_segments
        reach = int(offsets.max()) + 1
        start = len(item.prompt.ids)
        unpacked = backbone.positions(item.prompt, max(reach - start, 0), f"prompt {r}")
        positions[:, r, : len(offsets)] = unpacked[:, torch.from_numpy(offsets)]
        at = start
        for k, b in enumerate(range(first, first + len(item.rows))):
            fed = ends[b] - 1
            if item.images and item.images[k]:
                own = backbone.positions(item.unpack(k), 0, f"row {b}")
                positions[:, r, at : at + fed] = own[:, start : start + fed]
            before[b, 0] = r * longest + start - 1
            before[b, 1 : ends[b]] = r * longest + np.arange(at, at + fed)
            at += fed
    rows = [row for item in items for row in item.rows]
    slots = np.flatnonzero(wanted)
    targets = [rows[b][t] for b, t in zip(*divmod(slots, width), strict=True)]
    return Packed(
        ids=torch.from_numpy(ids),
        positions=positions,
        segments=torch.from_numpy(segments),
        images=backbone.collect_images(
            [_images_of(item, fed, backbone) for item, fed in _fed(items, ends)]
        ),
        hidden=torch.from_numpy(before.reshape(-1)[slots]),
        targets=torch.tensor(targets, dtype=torch.long),
        slots=torch.from_numpy(slots),
    )


def _fed(
    items: Sequence[PackItem], ends: np.ndarray
) -> list[tuple[PackItem, list[tuple[int, ...]]]]:
    """Each item with what is fed of its rows: their last tokens are not."""
    return [
        (item, [row[: ends[first + k] - 1] for k, row in enumerate(item.rows)])
        for first, item in _firsts(items)
    ]


def _images_of(item: PackItem, fed: Sequence[tuple[int, ...]], backbone: Backbone) -> Prompt:
    """The item's images in the order of their placeholders: the prompt's, then each row's. Raises DataError for
    placeholders among a row's own tokens that no image of the row stands for."""
    images = list(item.prompt.images)
    for k, row in enumerate(fed):
        places = row.count(backbone.image_token_id)
        for image in item.images[k] if item.images else ():
            if places <= 0:  # behind the last scored token
                break
            images.append(image)
            places -= image.tokens
        if places:
            raise DataError(
                "image tokens among a row's own tokens that stand for none of its images; images belong to "
                "prompts, or to what an environment inserts"
            )
    return Prompt(ids=(), images=tuple(images))


def _fitting(
    items: Sequence[PackItem], mask: Tensor
) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """The mask as an array, checked against the rows."""
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


def _lay(item: PackItem, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, segments and places in the unpacked row of one item."""
    prompt = len(item.prompt.ids)
    fed = [row[: end - 1] for row, end in zip(item.rows, ends, strict=True)]
    ids = np.array([*item.prompt.ids, *(i for own in fed for i in own)], dtype=np.int64)
    sizes = [prompt, *map(len, fed)]
    segments = np.repeat(np.arange(len(sizes)), sizes)
    starts = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
    within = np.arange(len(ids)) - starts
    return ids, segments, within + prompt * (segments > 0)
