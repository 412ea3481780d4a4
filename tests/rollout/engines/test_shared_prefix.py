"""Attention to prompts that several rows share, against the repeated keys."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from vlrft.rollout.engines import shared_prefix
from vlrft.rollout.engines.shared_prefix import ATTENTION, OwnTokens, Prefix
from vlrft.schema import DataError

HEADS, KEY_HEADS, WIDTH, PAST, OWN = 4, 2, 8, 7, 3
LENGTHS, ROWS = (7, 2, 5), (3, 1, 2)  # of three prompts, padded on the left


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def example() -> tuple[Prefix, Tensor, Tensor, Tensor]:
    keys, values = drawn(2, 3, KEY_HEADS, PAST, WIDTH)
    real = torch.arange(PAST) >= PAST - torch.tensor(LENGTHS)[:, None]
    filled = SimpleNamespace(layers=[SimpleNamespace(keys=keys, values=values)])
    return Prefix.of(filled, real, torch.tensor(ROWS)), keys, values, real


def repeated(
    query: Tensor, own: Tensor, keys: Tensor, values: Tensor, real: Tensor, prompt: Tensor
) -> Tensor:
    """A row at a time, its prompt's real keys before its own, key heads repeated."""
    out = torch.zeros(len(query), 1, HEADS, WIDTH, dtype=torch.float64)
    for n in range(len(query)):
        b = int(prompt[n])
        for h in range(HEADS):
            w = h // (HEADS // KEY_HEADS)
            key = torch.cat([keys[b, w][real[b]], own[0][n, w]])
            value = torch.cat([values[b, w][real[b]], own[1][n, w]])
            share = (key @ query[n, h, 0] * WIDTH**-0.5).softmax(0)
            out[n, 0, h] = share @ value
    return out


@pytest.mark.parametrize("kept", [[0, 1, 2, 3, 4, 5], [0, 2, 5], [3], [4, 5], [1, 3]])
def test_it_is_the_attention_to_repeated_prompts(kept: list[int]) -> None:
    prefix, keys, values, real = example()
    query = 4 * drawn(6, HEADS, 1, WIDTH)[kept]
    own = drawn(2, 6, KEY_HEADS, OWN, WIDTH)[:, kept]
    prompt = torch.tensor([0, 0, 0, 1, 2, 2])[kept]
    shared_prefix._register()
    from transformers import AttentionInterface

    attend = AttentionInterface()[ATTENTION]
    found, _ = attend(
        SimpleNamespace(layer_idx=0),
        query,
        own[0],
        own[1],
        None,
        scaling=WIDTH**-0.5,
        prefix=prefix.take(torch.tensor(kept)),
    )
    torch.testing.assert_close(found, repeated(query, own, keys, values, real, prompt))


def test_prompts_that_no_row_continues_are_let_go() -> None:
    prefix, keys, _, _ = example()
    left = prefix.take(torch.tensor([0, 1, 4]))
    assert left.keys[0].shape[0] == 2
    assert torch.equal(left.keys[0], keys[[0, 2]])
    assert left.take(torch.tensor([2])).keys[0].shape[0] == 1
    assert prefix.take(torch.tensor([1, 3, 5])).keys[0] is prefix.keys[0]  # nothing is copied


def test_own_keys_are_written_in_place() -> None:
    own = OwnTokens(layers=1, steps=4)
    steps = drawn(4, 2, KEY_HEADS, 1, WIDTH)
    keys, values = own.update(steps[0], -steps[0], 0)
    first = keys.data_ptr()
    for t in range(1, 4):
        keys, values = own.update(steps[t], -steps[t], 0)
        assert own.get_seq_length() == t + 1
        torch.testing.assert_close(keys, torch.cat(list(steps[: t + 1]), 2))
        torch.testing.assert_close(values, -keys)
    assert keys.data_ptr() == first


def test_own_keys_of_some_rows_go_on() -> None:
    own = OwnTokens(layers=1, steps=4)
    steps = drawn(2, 3, KEY_HEADS, 1, WIDTH)
    own.update(steps[0], steps[0], 0)
    own.take(torch.tensor([2]))
    keys, _ = own.update(steps[1, [2]], steps[1, [2]], 0)
    torch.testing.assert_close(keys, torch.cat(list(steps[:, [2]]), 2))


def test_attention_with_more_to_it_is_refused() -> None:
    prefix, *_ = example()
    with pytest.raises(DataError, match="softcap"):
        shared_prefix._shared_prefix_attention(
            SimpleNamespace(layer_idx=0),
            drawn(6, HEADS, 1, WIDTH),
            *(drawn(6, KEY_HEADS, OWN, WIDTH),) * 2,
            attention_mask=None,
            scaling=1.0,
            prefix=prefix,
            softcap=30.0,
        )
