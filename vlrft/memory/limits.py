"""Bounds on memory that is held at once, read by the code that respects them and by the memory plan."""

from __future__ import annotations

CHUNK_LOGITS = 2**24  # logits held at once while log-probs are computed: 64 MiB in float32
GPU_FACTOR = 8  # times as many logits on a GPU, where small matrix products are slow
REPLICATED_LOGITS = 2**28  # logits of one plain forward pass of the self-check, all positions kept
FEATURE_BYTES = 2**30  # image features of a frozen vision model, cached on the policy's device
PIXEL_CACHE_BYTES = 2**28  # processed images, cached in host memory
CHECKED_ROWS = 4  # of each packed row that the self-check compares, at most
PREFILL_TOKENS = 2**16  # prompt tokens in one prefill, with padding: bounds activations
KEEP_SHARE = 0.75  # when a smaller share of the rows is unfinished, their KV cache is copied


def chunk_rows(vocab: int, *, gpu: bool) -> int:
    """Scored tokens whose logits are held at once."""
    return max(CHUNK_LOGITS * (GPU_FACTOR if gpu else 1) // vocab, 1)


def replicated_rows(vocab: int, length: int) -> int:
    """Rows of `length` tokens in one plain forward pass of the self-check."""
    return max(REPLICATED_LOGITS // vocab // length, 1)
