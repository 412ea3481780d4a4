"""Packed rows as prompts [R P] and completions [N T] apart, for layers that run them one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from vlrft.distributed.cuda_settings import to_device
from vlrft.policy.attention.rows import PackedRows

LEAST = 2  # positions of a completion, the last one padding: layers run a single one by the operators of decoding


@dataclass(frozen=True, kw_only=True)
class ForkedRows:
    """Where the parts of packed rows [R L] are. Axes: R prompts, P positions of the longest, N completions of which some
    token is run (at least one, of nothing but padding if need be), T positions of the longest.

    Prompts are padded on the left, so that their states are those after their last token, and completions on the right.
    """

    prompts: Int[Tensor, "R P"]  # positions of the flattened rows; at padding, some
    real: Bool[Tensor, "R P"] | None  # no padding; None: nowhere is any
    completions: Int[Tensor, "N T"]
    prompt: Int[Tensor, " N"]  # of each completion
    places: Int[
        Tensor, " RL"
    ]  # of each packed position, in prompts and completions after one another

    @staticmethod
    def of(rows: PackedRows, device: torch.device) -> ForkedRows:
        lengths = [prompt for prompt, *_ in rows.segments]
        run = [(r, n) for r, (_, *rest) in enumerate(rows.segments) for n in rest if n]
        longest = max(lengths)
        width = max((LEAST, *(n for _, n in run)))
        # Without any, a row of padding: ranks that gather weights for each call of a module run equally many.
        run = run or [(0, 0)]
        prompts = torch.zeros(len(lengths), longest, dtype=torch.long)
        real = torch.zeros(len(lengths), longest, dtype=torch.bool)
        completions = torch.zeros(len(run), width, dtype=torch.long)
        places = torch.zeros(len(lengths) * rows.width, dtype=torch.long)
        k = 0
        for r, (length, *rest) in enumerate(rows.segments):
            at = r * rows.width
            left = longest - length
            prompts[r] = torch.arange(at - left, at + length).clamp_(min=at)
            real[r, left:] = True
            places[at : at + length] = torch.arange(r * longest + left, (r + 1) * longest)
            at += length
            for n in filter(None, rest):
                completions[k] = torch.arange(at, at + width).clamp_(max=at + n - 1)
                first = len(lengths) * longest + k * width
                places[at : at + n] = torch.arange(first, first + n)
                at, k = at + n, k + 1
        equal = min(lengths) == longest
        return ForkedRows(
            prompts=to_device(prompts, device),
            real=None if equal else to_device(real, device),
            completions=to_device(completions, device),
            prompt=to_device(torch.tensor([r for r, _ in run], dtype=torch.long), device),
            places=to_device(places, device),
        )
