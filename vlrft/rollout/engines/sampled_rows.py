"""Sampled tokens on the host: which rows have ended, and the pieces that they become."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from vlrft.policy.chat import Chat
from vlrft.rollout.engines.stop_strings import StopStrings, cut_at_stop
from vlrft.rollout.engines.types import Sampling
from vlrft.schema import Piece


@dataclass(kw_only=True)
class SampledRow:
    """A completion while it is sampled."""

    request: int
    place: int  # among the request's completions
    seed: int
    ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    ended: bool = False
    stopped: bool = False  # by an end token or a stop string, not by the limit of tokens
    signals: list[list[float]] = field(default_factory=list[list[float]])
    """Of each signal that is asked for, a number for each token and for some after the end [≥ T]."""


@dataclass(frozen=True, kw_only=True)
class Endings:
    """Where completions end."""

    end_ids: Collection[int]
    max_tokens: int
    stops: StopStrings | None

    def extend(
        self,
        rows: Sequence[SampledRow],
        tokens: Sequence[Sequence[int | float]],
        logprobs: Sequence[Sequence[float]],
    ) -> None:
        """Adds new tokens to rows, each up to its end; those after it are discarded. A row also ends with a log-prob that is
        not finite, which `play` refuses."""
        before = [len(row.ids) for row in rows]
        for row, ids, values in zip(rows, tokens, logprobs, strict=True):
            for token, value in zip(map(int, ids), values, strict=True):
                row.ids.append(token)
                row.logprobs.append(value)
                row.stopped = token in self.end_ids
                row.ended = (
                    row.stopped or len(row.ids) == self.max_tokens or not math.isfinite(value)
                )
                if row.ended:
                    break
        if self.stops is not None:
            ends = self.stops.find_first([row.ids for row in rows], before)
            for row, end in zip(rows, ends, strict=True):
                if end is not None:
                    del row.ids[end:], row.logprobs[end:]
                    row.ended = row.stopped = True


def make_pieces(rows: Sequence[SampledRow], chat: Chat, sampling: Sampling) -> list[Piece]:
    """The piece of each row."""
    return [
        Piece(
            ids=tuple(row.ids),
            text=cut_at_stop(text, sampling.stop),
            logprobs=tuple(row.logprobs),
            finish="stop" if row.stopped else "length",
            signals={
                name: tuple(values[: len(row.ids)])
                for name, values in zip(sampling.signals, row.signals, strict=True)
            },
        )
        for row, text in zip(rows, chat.decode_all([row.ids for row in rows]), strict=True)
    ]
