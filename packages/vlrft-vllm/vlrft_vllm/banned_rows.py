"""Which logits of a batch are banned: reading the ids of a request, and setting their logits to −∞. Imports no vLLM."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch

KEY = "vlrft_banned_token_ids"


def read_ids(extra_args: Mapping[str, Any] | None) -> tuple[int, ...]:
    """The banned ids of a request. Raises ValueError for anything but a list of ids."""
    ids = (extra_args or {}).get(KEY, [])
    if not isinstance(ids, list) or any(type(i) is not int or i < 0 for i in ids):
        raise ValueError(f"{KEY}: a list of token ids is needed")
    return tuple(ids)


class BannedRows:
    """The banned tokens of each row of a batch, on the device of the logits.

    The requests of a run ban the same tokens, so rows are grouped by their list, and a list goes to the device once.
    """

    def __init__(self, *, vocab_size: int, device: torch.device) -> None:
        """`vocab_size`: ids from there on have no logit; a tokenizer may know some."""
        self.device = device
        self.vocab_size = vocab_size
        self.groups: list[tuple[torch.Tensor, torch.Tensor]] = []  # rows [n, 1], ids [m]
        self._ids_on_device = lru_cache(maxsize=8)(self._copy_ids)

    def set(self, requests: Mapping[int, tuple[int, ...]]) -> None:
        """Takes the batch's rows and their banned ids."""
        rows_by_ids: dict[tuple[int, ...], list[int]] = {}
        for row, ids in requests.items():
            rows_by_ids.setdefault(ids, []).append(row)
        self.groups = [
            (torch.tensor(rows, device=self.device)[:, None], self._ids_on_device(ids))
            for ids, rows in rows_by_ids.items()
        ]

    def ban(self, logits: torch.Tensor) -> torch.Tensor:
        """Sets the banned logits to −∞, in place. `logits`: [rows, V]."""
        for rows, ids in self.groups:
            logits[rows, ids] = -math.inf
        return logits

    def _copy_ids(self, ids: tuple[int, ...]) -> torch.Tensor:
        return torch.tensor([i for i in ids if i < self.vocab_size], device=self.device)
