"""How the rows of an update are split, on lengths and images alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.shapes import DECODER, MODEL, TOWER
from vlrft.memory import saved_tensors
from vlrft.memory.micro_batches import Load, image_tokens, plan_micro_batches, split_rows
from vlrft.memory.shapes import MicroBatchShape, PackedPrompt, PromptSize

IMAGES = st.dictionaries(st.sampled_from("abcd"), st.just(30), max_size=2)
PROMPTS = st.lists(
    st.builds(
        lambda tokens, images: Load(tokens=tokens, images=images), st.integers(1, 50), IMAGES
    ),
    min_size=1,
    max_size=8,
)
ROWS = st.lists(
    st.builds(
        lambda tokens, images: Load(tokens=tokens, images=images), st.integers(1, 20), IMAGES
    ),
    min_size=1,
    max_size=9,
)


def text(*tokens: int) -> list[Load]:
    return [Load(tokens=n) for n in tokens]


@given(PROMPTS, st.data(), st.integers(1, 400))
def test_every_row_is_in_one_micro_batch_within_the_limit_short_ones_first(
    prompts: list[Load], data: st.DataObject, max_tokens: int
) -> None:
    rows = [data.draw(ROWS) for _ in prompts]
    order: list[list[int]] = [[] for _ in prompts]
    last = 0
    for micro in split_rows(prompts, rows, max_tokens):
        packed = [prompts[i].tokens + sum(rows[i][k].tokens for k in some) for i, some in micro]
        images = {
            image
            for i, some in micro
            for load in (prompts[i], *(rows[i][k] for k in some))
            for image in load.images
        }
        alone = len(micro) == 1 and len(micro[0][1]) == 1
        assert len(packed) * max(packed) + 30 * len(images) <= max_tokens or alone
        assert packed == sorted(packed)
        assert packed[0] >= last
        last = packed[-1]
        for index, some in micro:
            order[index] += some
    for index, ks in enumerate(order):
        assert sorted(ks) == list(range(len(rows[index])))


def test_a_prompt_with_too_many_rows_is_cut_into_several_that_carry_it() -> None:
    assert split_rows(text(10), [text(*(5,) * 5)], 20) == [
        [(0, range(4, 5))],
        [(0, range(2))],
        [(0, range(2, 4))],
    ]
    assert split_rows(text(10, 4), [text(5), text(5)], 30) == [[(1, range(1)), (0, range(1))]]
    assert split_rows([], [], 30) == []


def test_images_take_room_and_prompts_that_share_one_share_its_room() -> None:
    one, two = {"one": 40}, {"two": 40}
    rows = [text(5), text(5)]
    apart = [[(0, range(1))], [(1, range(1))]]
    together = [[(0, range(1)), (1, range(1))]]
    assert split_rows([Load(tokens=5, images=one), Load(tokens=5, images=two)], rows, 60) == apart
    assert (
        split_rows([Load(tokens=5, images=one), Load(tokens=5, images=one)], rows, 60) == together
    )
    assert (
        split_rows([Load(tokens=5, images=one), Load(tokens=5, images=two)], rows, 100) == together
    )
    inserted = [[Load(tokens=5), Load(tokens=5, images=one)]]  # an environment showed one
    assert split_rows(text(5), inserted, 54) == [[(0, range(1))], [(0, range(1, 2))]]
    assert split_rows(text(5), inserted, 55) == [[(0, range(2))]]


def test_an_image_counts_as_the_tokens_that_keep_as_much() -> None:
    def kept(tokens: int, patches: int) -> int:
        size = PromptSize(tokens=tokens, patches=patches)
        micro = MicroBatchShape([PackedPrompt(prompt=size, rows=())])
        flex = replace(MODEL, decoder=replace(DECODER, attention="flex_attention"))  # linear
        return saved_tensors.decoder(flex, micro) + saved_tensors.tower(flex, micro)

    tokens = image_tokens(replace(MODEL, decoder=replace(DECODER, attention="flex_attention")), 100)
    assert kept(5 + tokens - 1, 0) < kept(5, 100) <= kept(5 + tokens, 0)


@pytest.mark.parametrize(
    ("projector", "tokens"), [(False, 0), (True, -(-4 * 8 * 4 * 4 // (4 * (3 * 147 + 24))))]
)
def test_a_frozen_tower_counts_for_nothing_but_its_trained_projector(
    projector: bool, tokens: int
) -> None:
    """A token: 3 layers of 6 H + 4 A + 4 I + 2 + 1 for a mask, and 2 H + 2 d at the ends."""
    tower = replace(TOWER, gradient="none", projector=projector)
    assert image_tokens(replace(MODEL, tower=tower), 8) == tokens


def test_text_counts_for_itself() -> None:
    assert image_tokens(replace(MODEL, tower=None), 0) == 0
    assert image_tokens(MODEL, 0) == 0


def test_the_plan_packs_each_prompt_with_its_completions() -> None:
    sizes = [PromptSize(tokens=10, patches=4), PromptSize(tokens=4)]
    (micro,) = plan_micro_batches(MODEL, sizes, 2, 5, 100)
    assert [(item.prompt, item.rows) for item in micro.items] == [
        (sizes[1], (5, 5)),
        (sizes[0], (5, 5)),
    ]


def test_the_plan_s_activations_stay_within_the_budget_whatever_the_images() -> None:
    """Sixteen large images and short answers once took three times what as many tokens of text take."""

    def peak(sizes: list[PromptSize]) -> int:
        micros = plan_micro_batches(MODEL, sizes, 2, 5, 1000)
        return max(saved_tensors.decoder(MODEL, m) + saved_tensors.tower(MODEL, m) for m in micros)

    large = [PromptSize(tokens=20, patches=400)] * 16
    assert peak(large) <= 1.1 * peak([PromptSize(tokens=20)] * 100)
