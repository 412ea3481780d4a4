"""How a step's work is cut, on lengths alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vlrft.memory.shapes import PromptSize
from vlrft.memory.workload import (
    RolloutWork,
    batch_requests,
    plan_micro_batches,
    request_batches,
    split_rows,
)

LENGTHS = st.lists(st.integers(1, 50), min_size=1, max_size=8)


@given(LENGTHS, st.data(), st.integers(1, 300))
def test_every_row_is_in_one_micro_batch_within_the_limit_short_ones_first(
    prompts: list[int], data: st.DataObject, max_tokens: int
) -> None:
    row_lengths = st.lists(st.integers(1, 20), min_size=1, max_size=9)
    rows = [data.draw(row_lengths) for _ in prompts]
    order: list[list[int]] = [[] for _ in prompts]
    last = 0
    for micro in split_rows(prompts, rows, max_tokens):
        packed = [prompts[i] + sum(rows[i][k] for k in some) for i, some in micro]
        alone = len(micro) == 1 and len(micro[0][1]) == 1
        assert len(packed) * max(packed) <= max_tokens or alone
        assert packed == sorted(packed)
        assert packed[0] >= last
        last = packed[-1]
        for index, some in micro:
            order[index] += some
    for index, ks in enumerate(order):
        assert sorted(ks) == list(range(len(rows[index])))


def test_a_prompt_with_too_many_rows_is_cut_into_several_that_carry_it() -> None:
    assert split_rows([10], [(5,) * 5], 20) == [
        [(0, range(4, 5))],
        [(0, range(2))],
        [(0, range(2, 4))],
    ]
    assert split_rows([10, 4], [(5,), (5,)], 30) == [[(1, range(1)), (0, range(1))]]
    assert split_rows([], [], 30) == []


def test_the_plan_packs_each_prompt_with_its_completions() -> None:
    sizes = [PromptSize(tokens=10, patches=4), PromptSize(tokens=4)]
    (micro,) = plan_micro_batches(sizes, 2, 5, 100)
    assert [(item.prompt, item.rows) for item in micro.items] == [
        (sizes[1], (5, 5)),
        (sizes[0], (5, 5)),
    ]


def test_the_plan_samples_in_the_batches_of_an_engine() -> None:
    lengths = (7, 30, 12)
    work = RolloutWork(
        prompts=tuple(PromptSize(tokens=n) for n in lengths), answers=4, tokens=9, max_rows=6
    )
    batches = batch_requests(lengths, (4, 4, 4), steps=9, max_rows=6, max_cache_tokens=2**19)
    planned = [[(p.tokens, rows) for p, rows in batch.parts] for batch in request_batches(work)]
    assert planned == [[(lengths[i], rows) for i, rows in batch] for batch in batches]
    assert planned == [[(30, 4)], [(12, 4)], [(7, 4)]]
