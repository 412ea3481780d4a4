"""Requests for completions to a fake server of vLLM, its answers, and completions that are computed. Only the standard
library is imported."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

BANNED = "vlrft_banned_token_ids"  # of the logits processor in packages/vlrft-vllm
Body = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class FakeRequest:
    """One completion that is asked for."""

    prompt: tuple[int, ...]
    seed: int
    weights: str  # a hash of the file with the weights or the adapter; of the base before the first update
    images: tuple[str, ...]  # their hashes
    params: Body  # vLLM's sampling parameters
    vocab: int


Completion = tuple[Sequence[int], Sequence[float]]
Answer = Callable[[FakeRequest], Completion]


def random_tokens(request: FakeRequest) -> Completion:
    """Tokens that depend on the prompt, its images, the seed and the weights; each has the log-prob of its uniform distribution."""
    params = request.params
    banned = set((params.get("extra_args") or {}).get(BANNED, ()))
    allowed = params.get("allowed_token_ids") or range(request.vocab)
    tokens = [token for token in allowed if token not in banned]
    key = (request.prompt, request.images, request.weights)
    seed = 0 if params.get("temperature") == 0 else request.seed
    digest = hashlib.sha256(repr((key, seed)).encode()).digest()
    chosen = random.Random(digest).choices(tokens, k=params["max_tokens"])
    value = -(len(tokens).bit_length() - 1) * 0.6931471805599453
    ends = set(params.get("stop_token_ids") or ())
    length = next((k + 1 for k, token in enumerate(chosen) if token in ends), len(chosen))
    return chosen[:length], [value] * length


def write_answer(
    request: FakeRequest,
    completion: Completion,
    finish: str,
    *,
    version: str,
    prompt: Sequence[int],
) -> Body:
    """The body of an answer, as /inference/v1/generate of vLLM gives it. `prompt`: the ids that it states."""
    ids, logprobs = completion
    content = [
        {"token_id": token, "logprob": value, "rank": 1, "top_logprobs": []}
        for token, value in zip(ids, logprobs, strict=True)
    ]
    choice = {
        "index": 0,
        "finish_reason": finish,
        "token_ids": [*ids],
        "logprobs": {"content": content},
        "weight_versions": [{"version": version, "start": 0, "end": len(ids)}] if ids else None,
    }
    return {"prompt_token_ids": [*prompt], "choices": [choice]}
