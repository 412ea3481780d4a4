"""The cost of packed attention, counted: it grows linearly with the size of a group and the length of its answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from tests.conftest import Tiny
from tests.policy.attention.counts import Counts
from tests.policy.attention.layouts import HEADS, SCALE, define, draw_inputs, packed_rows
from vlrft.policy.attention.packed import PackedAttention
from vlrft.policy.attention.rows import PackedRows
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.testing.small_policies import ask

PROMPT, ANSWER = 48, 64
Attend = Callable[[PackedRows, tuple[Tensor, Tensor, Tensor]], Tensor]


def run_split(rows: PackedRows, inputs: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    return PackedAttention(rows)(*inputs, SCALE)


def run_dense(rows: PackedRows, inputs: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    return define(*inputs, rows)


def cost(attend: Attend, group: int, answer: int) -> tuple[int, int, int]:
    """Scores, elements of the largest tensor, and bytes saved for the backward pass."""
    rows = packed_rows((PROMPT, *[answer] * group))
    inputs, grad = draw_inputs(rows, torch.float32)
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with Counts() as counts:
        with saved_tensors_hooks(keep, lambda tensor: tensor):
            output = attend(rows, inputs)
        output.backward(grad)  # type: ignore[no-untyped-call]
    return counts.scores, counts.largest, sum(saved.values())


def is_linear(costs: list[tuple[int, int, int]]) -> list[bool]:
    """Of each cost at 1, 2, 3 times the size: whether the last third costs no more than the one before."""
    return [c - b <= b - a for a, b, c in zip(*costs, strict=True)]


@pytest.mark.parametrize(("attend", "linear"), [(run_split, True), (run_dense, False)])
def test_cost_is_linear_in_the_group(attend: Attend, linear: bool) -> None:
    """With a dense mask neither the scores nor the bytes are: then this counts what it should."""
    assert is_linear([cost(attend, group, ANSWER) for group in (8, 16, 24)]) == [linear] * 3


def test_bytes_are_linear_in_the_length_of_answers_and_scores_but_for_each_answers_own() -> None:
    lengths = (96, 192, 288)
    scores, largest, saved = zip(*(cost(run_split, 8, n) for n in lengths), strict=True)
    own = [2 * HEADS * 8 * n * n for n in lengths]  # forward and backward, 8 answers
    over_prompt = [count - square for count, square in zip(scores, own, strict=True)]
    for a, b, c in (over_prompt, largest, saved):
        assert c - b == b - a


def test_no_tensor_of_an_update_has_a_rows_length_twice(tiny: Tiny) -> None:
    policy = tiny("qwen2_vl")
    item = PackItem(prompt=policy.chat.render(ask("a" * 200)), rows=((5,) * 90, (6,) * 100) * 2)
    mask = torch.ones(4, 100, dtype=torch.bool)
    mask[::2, 90:] = False
    with Counts() as counts:
        scores = packed_logprobs(policy, [item], mask=mask, temperature=1.0)
        scores.logprobs.sum().backward()  # type: ignore[no-untyped-call]
    length = max(shape[1] for shape in counts.shapes if len(shape) == 3)
    assert length > len(policy.chat.tokenizer)  # else logits had it too
    assert not [s for s in counts.shapes if sum(n >= length for n in s) > 1]


def test_padding_to_a_common_length_costs_at_most_a_half_more() -> None:
    ragged = packed_rows((PROMPT, *range(20, 148, 4)))
    inputs, _ = draw_inputs(ragged, torch.float32)
    with Counts() as counts:
        run_split(ragged, inputs)
    exact = sum(n * n for (first, *rest) in ragged.segments for n in (first, *rest))
    shared = PROMPT * sum(ragged.segments[0][1:])
    assert counts.scores <= 1.5 * 4 * (exact + shared)
