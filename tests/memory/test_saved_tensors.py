"""Saved tensors by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from tests.memory.shapes import DECODER, MICRO, MODEL, TOWER
from vlrft.memory import saved_tensors
from vlrft.memory.shapes import AdapterShape, MicroBatchShape, PackedPrompt, PromptSize


def test_a_micro_batch_is_padded_to_its_longest_item() -> None:
    short = PackedPrompt(prompt=PromptSize(tokens=2), rows=(1,))
    micro = MicroBatchShape([*MICRO.items, short])
    assert (micro.length, micro.positions, micro.square) == (9, 18, 162)
    assert (micro.scored, micro.patches) == (7, 8)


def test_a_decoder_layer_by_hand() -> None:
    # 9 positions: the norms' 6 H; q and the attention output, k and v; 4 I; 2 log-sum-exps
    elements = 6 * 8 + 2 * 8 + 2 * 4 + 4 * 16 + 2
    assert saved_tensors.decoder_layer(MODEL, MICRO) == 4 * 9 * elements


def test_frozen_weights_save_no_inputs() -> None:
    frozen = replace(MODEL, decoder=replace(DECODER, gradient="flow"))
    elements = 2 * 8 + 2 * 8 + 2 * 4 + 3 * 16 + 2
    assert saved_tensors.decoder_layer(frozen, MICRO) == 4 * 9 * elements


def test_half_precision_saves_norm_inputs_and_log_sum_exps_in_float32() -> None:
    half = replace(MODEL, element=2)
    narrow = 4 * 8 + 2 * 8 + 2 * 4 + 4 * 16
    assert saved_tensors.decoder_layer(half, MICRO) == 9 * (2 * narrow + 4 * (2 * 8 + 2))


def test_saved_tensors_grow_linearly_with_the_completions() -> None:
    """As many again after the same prompt: no mask, which would grow with the square."""
    (item,) = MICRO.items
    twice = MicroBatchShape([replace(item, rows=item.rows * 2)])
    thrice = MicroBatchShape([replace(item, rows=item.rows * 3)])
    once, two, three = (saved_tensors.decoder_layer(MODEL, m) for m in (MICRO, twice, thrice))
    assert two - once == three - two


def test_flex_attention_repeats_keys_unless_the_heads_are_a_power_of_two() -> None:
    """As transformers does: with 12 query heads, such as Qwen2-VL-2B has, and not with 8."""

    def of(attention: Literal["sdpa", "flex_attention"], heads: int) -> int:
        shape = replace(DECODER, attention=attention, heads=heads)
        return saved_tensors.decoder_layer(replace(MODEL, decoder=shape), MICRO)

    assert of("flex_attention", 8) == of("sdpa", 8)
    assert of("flex_attention", 12) - of("sdpa", 12) == 4 * 9 * 2 * (12 - 1) * 4


def test_eager_attention_saves_its_weights_for_each_head() -> None:
    eager = replace(MODEL, decoder=replace(DECODER, attention="eager"))
    more = saved_tensors.decoder_layer(eager, MICRO) - saved_tensors.decoder_layer(MODEL, MICRO)
    repeated = 9 * 2 * (8 - 4)  # keys and values for each query head
    assert more == 4 * (81 * 2 + repeated - 9 * 2)


def test_checkpointing_saves_the_input_of_a_layer() -> None:
    lean = replace(MODEL, checkpointing=True)
    ends = 4 * (9 * (2 * 8 + 2 * 4) + 6 * 8)
    assert saved_tensors.decoder(lean, MICRO) == 3 * 4 * 9 * 8 + ends
    assert (
        saved_tensors.decoder(MODEL, MICRO) == 3 * saved_tensors.decoder_layer(MODEL, MICRO) + ends
    )


def test_adapters_of_another_dtype_cast_every_input() -> None:
    lora = AdapterShape(rank=2, inputs=(8, 8, 16), distinct=24)
    assert saved_tensors.adapters(lora, 4) == 3 * 2 * 4 + 24 * 4
    assert saved_tensors.adapters(lora, 2) == 3 * 2 * 4 + 32 * 4


def test_a_tower_by_hand() -> None:
    # norms' inputs 2 W, attention 6 W, two linear inputs of W, 3 I of the MLP, log-sum-exps
    layer = 4 * 8 * (2 * 4 + 6 * 4 + 2 * 4 + 3 * 8 + 2)
    assert saved_tensors.tower_layer(MODEL, TOWER, 8) == layer
    ends = 4 * 8 * (4 * 4 + 10 + 2 * 2)  # projector, pixels, rotary angles
    assert saved_tensors.tower(MODEL, MICRO) == 2 * layer + ends


@pytest.mark.parametrize(("projector", "expected"), [(True, 4 * 8 * 4 * 4), (False, 0)])
def test_a_frozen_tower_saves_nothing_but_its_trained_projector(
    projector: bool, expected: int
) -> None:
    tower = replace(TOWER, gradient="none", projector=projector)
    assert saved_tensors.tower(replace(MODEL, tower=tower), MICRO) == expected
