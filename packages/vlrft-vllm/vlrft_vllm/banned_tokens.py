"""Tokens that a request may not sample, by id.

vLLM has two means of its own: `logit_bias`, which is clamped to ±100 and so bans nothing, and `allowed_token_ids`, which for a
vocabulary of 151,936 tokens is a list as long with each request. The banned ones are a few hundred.

A request names them in its sampling parameters: `extra_args: {"vlrft_banned_token_ids": [0, 5, …]}`. Their logits become −∞
before temperature, top-k and top-p, so the log-probs that vLLM returns are those of the remaining tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from vllm.v1.sample.logits_processor import LogitsProcessor, process_dict_updates

from vlrft_vllm.banned_rows import KEY, BannedRows, read_ids

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.sampling_params import SamplingParams
    from vllm.v1.sample.logits_processor import BatchUpdate


class BannedTokens(LogitsProcessor):
    """The logits processor of the group `vllm.logits_processors`, which vLLM loads by itself."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
        self.requests: dict[int, tuple[int, ...]] = {}  # row of the batch -> its banned ids
        self.rows = BannedRows(vocab_size=vllm_config.model_config.get_vocab_size(), device=device)

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Raises ValueError, which the server answers with status 400."""
        read_ids(sampling_params.extra_args)

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        if process_dict_updates(self.requests, batch_update, _banned_of):
            self.rows.set(self.requests)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        return self.rows.ban(logits)


def _banned_of(params: SamplingParams, *_: Any) -> tuple[int, ...] | None:
    return read_ids(params.extra_args) or None


__all__ = ["KEY", "BannedTokens"]
