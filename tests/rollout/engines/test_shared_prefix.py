"""Attention to prompts that several rows share, against repeated keys."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from vlrft.rollout.engines import shared_prefix
from vlrft.rollout.engines.shared_prefix import ATTENTION, CompletionCache, PromptCache
from vlrft.schema import DataError

HEADS, KEY_HEADS, WIDTH, PROMPT, COMPLETION = 4, 2, 8, 7, 3
LENGTHS, ROWS = (7, 2, 5), (3, 1, 2)  # of three prompts, padded on the left


def random(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def example() -> tuple[PromptCache, Tensor, Tensor, Tensor]:
    keys, values = random(2, 3, KEY_HEADS, PROMPT, WIDTH)
    real = torch.arange(PROMPT) >= PROMPT - torch.tensor(LENGTHS)[:, None]
    cache = SimpleNamespace(layers=[SimpleNamespace(keys=keys, values=values)])
    return PromptCache.of(cache, real, torch.tensor(ROWS)), keys, values, real


def attend_repeated(
    query: Tensor, completion: Tensor, keys: Tensor, values: Tensor, real: Tensor, prompt: Tensor
) -> Tensor:
    """One row at a time, its prompt's keys before its completion's, key heads repeated."""
    out = torch.zeros(len(query), 1, HEADS, WIDTH, dtype=torch.float64)
    for n in range(len(query)):
        b = int(prompt[n])
        for h in range(HEADS):
            w = h // (HEADS // KEY_HEADS)
            key = torch.cat([keys[b, w][real[b]], completion[0][n, w]])
            value = torch.cat([values[b, w][real[b]], completion[1][n, w]])
            share = (key @ query[n, h, 0] * WIDTH**-0.5).softmax(0)
            out[n, 0, h] = share @ value
    return out


@pytest.mark.parametrize("kept", [[0, 1, 2, 3, 4, 5], [0, 2, 5], [3], [4, 5], [1, 3]])
def test_it_is_the_attention_to_repeated_prompts(kept: list[int]) -> None:
    prompts, keys, values, real = example()
    query = 4 * random(6, HEADS, 1, WIDTH)[kept]
    completion = random(2, 6, KEY_HEADS, COMPLETION, WIDTH)[:, kept]
    prompt = torch.tensor([0, 0, 0, 1, 2, 2])[kept]
    shared_prefix._register()
    from transformers import AttentionInterface

    attend = AttentionInterface()[ATTENTION]
    output, _ = attend(
        SimpleNamespace(layer_idx=0),
        query,
        completion[0],
        completion[1],
        None,
        scaling=WIDTH**-0.5,
        prompts=prompts.take(torch.tensor(kept)),
    )
    torch.testing.assert_close(
        output, attend_repeated(query, completion, keys, values, real, prompt)
    )


def test_prompts_without_rows_are_dropped() -> None:
    prompts, keys, _, _ = example()
    left = prompts.take(torch.tensor([0, 1, 4]))
    assert left.keys[0].shape[0] == 2
    assert torch.equal(left.keys[0], keys[[0, 2]])
    assert left.take(torch.tensor([2])).keys[0].shape[0] == 1
    assert prompts.take(torch.tensor([1, 3, 5])).keys[0] is prompts.keys[0]  # nothing is copied


def test_keys_of_completions_are_written_in_place() -> None:
    cache = CompletionCache(layers=1, steps=4)
    steps = random(4, 2, KEY_HEADS, 1, WIDTH)
    keys, values = cache.update(steps[0], -steps[0], 0)
    first = keys.data_ptr()
    for t in range(1, 4):
        keys, values = cache.update(steps[t], -steps[t], 0)
        assert cache.get_seq_length() == t + 1
        torch.testing.assert_close(keys, torch.cat(list(steps[: t + 1]), 2))
        torch.testing.assert_close(values, -keys)
    assert keys.data_ptr() == first


def test_rows_that_are_kept_keep_their_keys() -> None:
    cache = CompletionCache(layers=1, steps=4)
    steps = random(2, 3, KEY_HEADS, 1, WIDTH)
    cache.update(steps[0], steps[0], 0)
    cache.take(torch.tensor([2]))
    keys, _ = cache.update(steps[1, [2]], steps[1, [2]], 0)
    torch.testing.assert_close(keys, torch.cat(list(steps[:, [2]]), 2))


def test_unsupported_attention_options_are_refused() -> None:
    prompts, *_ = example()
    with pytest.raises(DataError, match="softcap"):
        shared_prefix._shared_prefix_attention(
            SimpleNamespace(layer_idx=0),
            random(6, HEADS, 1, WIDTH),
            *(random(6, KEY_HEADS, COMPLETION, WIDTH),) * 2,
            attention_mask=None,
            scaling=1.0,
            prompts=prompts,
            softcap=30.0,
        )
