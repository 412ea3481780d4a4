"""Attention to prompts that several rows share, against repeated keys; the caches of prompts and of completions."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from vlrft.rollout.engines.completion_cache import CompletionCache
from vlrft.rollout.engines.prompt_cache import PromptCache
from vlrft.rollout.engines.shared_prefix import Keys, SharedPrompts, attend_shared_prefix
from vlrft.schema.errors import ConfigError

HEADS, KEY_HEADS, WIDTH, PROMPT, COMPLETION = 4, 2, 8, 7, 3
LENGTHS = (7, 2, 5)  # of three prompts, padded on the right


def random(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def example() -> tuple[PromptCache, Tensor, Tensor, Tensor]:
    keys, values = random(2, 3, KEY_HEADS, PROMPT, WIDTH)
    real = torch.arange(PROMPT) < torch.tensor(LENGTHS)[:, None]
    cache = SimpleNamespace(layers=[SimpleNamespace(keys=keys, values=values)])
    return PromptCache.of(cache, LENGTHS), keys, values, real


def filled_cache(keys: Tensor, values: Tensor, room: int) -> CompletionCache:
    """A cache of one layer with all but the last of the tokens."""
    cache = CompletionCache(layers=1, rows=len(keys), room=room)
    for t in range(keys.shape[2]):
        cache.at = t
        cache.update(keys[:, :, t : t + 1], values[:, :, t : t + 1], 0)
    return cache


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


@pytest.mark.parametrize("counts", [(3, 1, 2), (2, 2, 2), (1, 0, 1), (0, 1, 0), (0, 0, 2)], ids=str)
def test_it_is_the_attention_to_repeated_prompts(counts: tuple[int, ...]) -> None:
    prompts, keys, values, real = example()
    prompt = torch.arange(3).repeat_interleave(torch.tensor(counts))
    rows = len(prompt)
    query = 4 * random(rows, HEADS, 1, WIDTH)
    completion = random(2, rows, KEY_HEADS, COMPLETION, WIDTH)
    cache = filled_cache(completion[0], completion[1], room=COMPLETION + 2)
    prompts.select([b for b, count in enumerate(counts) if count])
    shared = SharedPrompts.of(prompts, [count for count in counts if count])
    expected = attend_repeated(query, completion, keys, values, real, prompt)
    for at in (
        COMPLETION - 1,
        torch.full((rows,), COMPLETION - 1),
    ):  # the same place, or each its own
        cache.at = at
        room = cache.update(completion[0][:, :, -1:], completion[1][:, :, -1:], 0)
        for used in (None, COMPLETION, COMPLETION + 1):
            output, _ = attend_shared_prefix(
                SimpleNamespace(layer_idx=0),
                query,
                *room,
                None,
                scaling=WIDTH**-0.5,
                shared_prefix=Keys.of(shared, cache, used=used),
            )
            torch.testing.assert_close(output, expected)


def test_prompts_without_rows_are_dropped_and_others_added() -> None:
    prompts, keys, _, _ = example()
    more, _, _, _ = example()
    prompts.select([1, 2])
    assert (prompts.lengths, prompts.keys[0].shape[:2]) == ((2, 5), (2, 5))  # without the padding
    more.select([0])
    prompts.append(more)
    assert prompts.lengths == (2, 5, 7)
    torch.testing.assert_close(prompts.keys[0][2].transpose(0, 1), keys[0])
    torch.testing.assert_close(prompts.keys[0][1, :5].transpose(0, 1), keys[2, :, :5])
    before = prompts.keys[0]
    prompts.select([0, 1, 2])
    assert prompts.keys[0] is before  # nothing is copied


def test_keys_of_completions_are_written_in_place() -> None:
    steps = random(4, 2, KEY_HEADS, 1, WIDTH)
    cache = CompletionCache(layers=1, rows=2, room=4)
    places = set()
    for t in range(4):
        cache.at = t
        keys, values = cache.update(steps[t], -steps[t], 0)
        assert cache.get_seq_length() == t
        torch.testing.assert_close(
            keys[:, : t + 1].transpose(1, 2), torch.cat(list(steps[: t + 1]), 2)
        )
        torch.testing.assert_close(values, -keys)
        places.add(keys.data_ptr())
    assert len(places) == 1


def test_rows_that_are_kept_keep_their_keys_and_new_ones_start_empty() -> None:
    steps = random(2, 3, KEY_HEADS, 1, WIDTH)
    cache = CompletionCache(layers=1, rows=3, room=4)
    cache.update(steps[0], steps[0], 0)
    cache.select(torch.tensor([2]), more=1, used=1)
    cache.at = torch.tensor([1, 0])
    new = torch.stack([steps[1, 2], steps[1, 0]])
    keys, _ = cache.update(new, new, 0)
    torch.testing.assert_close(
        keys[0, :2].transpose(0, 1), torch.cat([steps[0, 2], steps[1, 2]], 1)
    )
    torch.testing.assert_close(keys[1, :1].transpose(0, 1), steps[1, 0])
    assert not keys[1, 1:].any()


def test_unsupported_attention_options_are_refused() -> None:
    prompts, *_ = example()
    cache = CompletionCache(layers=1, rows=3, room=2)
    with pytest.raises(ConfigError, match="softcap"):
        attend_shared_prefix(
            SimpleNamespace(layer_idx=0),
            random(3, HEADS, 1, WIDTH),
            *cache.update(*(random(3, KEY_HEADS, 1, WIDTH),) * 2, layer=0),
            attention_mask=None,
            scaling=1.0,
            shared_prefix=Keys.of(SharedPrompts.of(prompts, (1, 1, 1)), cache),
            softcap=30.0,
        )
