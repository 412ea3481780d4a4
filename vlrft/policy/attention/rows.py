"""Packed rows: a prompt, then its completions, each of which attends to the prompt and to itself only.

Axes: R packed rows, L positions of a row, T = R · L.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Span:
    """Consecutive positions of the flattened rows [T]."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, kw_only=True)
class PackedRows:
    """The lengths of the segments of each packed row: its prompt's, then its completions'. Segments that are not run have
    length 0."""

    segments: tuple[tuple[int, ...], ...]
    width: int  # L; positions after a row's segments are padding
    common: int = 0  # tokens at the beginning of every prompt that are the same

    @staticmethod
    def of_prompts(lengths: Sequence[int], common: int = 0) -> PackedRows:
        """Rows of nothing but a prompt, padded to the longest."""
        segments = tuple((length,) for length in lengths)
        return PackedRows(segments=segments, width=max(lengths), common=common)

    @property
    def longest(self) -> int:
        """Tokens of the longest unpacked row: a prompt and one completion."""
        return max(prompt + max(rest, default=0) for prompt, *rest in self.segments)

    @property
    def full(self) -> bool:
        """Whether no position is padding."""
        return all(sum(lengths) == self.width for lengths in self.segments)

    def spans(self) -> list[Span]:
        """Every segment that is run, in order; each is a causal sequence of its own."""
        spans = []
        for row, lengths in enumerate(self.segments):
            at = row * self.width
            for length in lengths:
                if length:
                    spans.append(Span(start=at, end=at + length))
                at += length
        return spans

    def shared(self) -> list[tuple[Span, Span]]:
        """For each row with completions: those completions, and the prompt to which all of them attend."""
        pairs = []
        for row, (prompt, *rest) in enumerate(self.segments):
            start = row * self.width
            middle, end = start + prompt, start + prompt + sum(rest)
            if middle > start and end > middle:
                pairs.append((Span(start=middle, end=end), Span(start=start, end=middle)))
        return pairs

    def ids(self) -> Int[Tensor, "R L"]:
        """The segment of each position: 0 for the prompt, k for completion k, -1 for padding."""
        ids = torch.full((len(self.segments), self.width), -1)
        for row, lengths in enumerate(self.segments):
            numbers = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
            ids[row, : len(numbers)] = numbers
        return ids
