"""The packed layout."""

from __future__ import annotations

import pytest
import torch

from tests.conftest import Tiny
from vlrft.policy.attention.dense import block_mask
from vlrft.policy.packing import PackItem, pack
from vlrft.schema import IMAGE, DataError, Prompt
from vlrft.testing.small_policies import ask, noise_image


def mask_of(*rows: str) -> torch.Tensor:
    return torch.tensor([[c == "x" for c in row] for row in rows])


def test_a_prompt_is_packed_once_and_each_row_continues_it(tiny: Tiny) -> None:
    items = [
        PackItem(prompt=Prompt(ids=(1, 2, 3)), rows=((10, 11, 12), (20,), (30, 31))),
        PackItem(prompt=Prompt(ids=(4,)), rows=((40, 41),)),
    ]
    packed = pack(items, mask_of("xxx", "x..", ".x.", "xx."), tiny("qwen2").backbone, pad_id=0)
    assert packed.ids.tolist() == [[1, 2, 3, 10, 11, 30], [4, 40, 0, 0, 0, 0]]
    assert packed.rows.ids().tolist() == [[0, 0, 0, 1, 1, 3], [0, 1, -1, -1, -1, -1]]
    assert packed.positions[0, 0].tolist() == [0, 1, 2, 3, 4, 3]
    assert packed.positions[0, 1, :2].tolist() == [0, 1]
    # wanted tokens, the states that predict them, and the slots of the results in [B=4 T=3]
    assert packed.targets.tolist() == [10, 11, 12, 20, 31, 40, 41]
    assert packed.hidden.tolist() == [2, 3, 4, 2, 5, 6, 7]
    assert packed.slots.tolist() == [0, 1, 2, 3, 7, 9, 10]


def test_tokens_after_the_last_wanted_one_are_not_run(tiny: Tiny) -> None:
    items = [PackItem(prompt=Prompt(ids=(1, 2)), rows=((10, 11, 12, 13), (20, 21)))]
    packed = pack(items, mask_of(".x..", "...."), tiny("qwen2").backbone, pad_id=0)
    assert packed.ids.tolist() == [[1, 2, 10]]
    assert packed.targets.tolist() == [11]


def test_a_token_attends_to_the_prompt_and_to_its_own_row_only() -> None:
    allowed = block_mask(torch.tensor([[0, 0, 1, 1, 2, -1]]))[0]
    assert allowed.int().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0],
        [1, 1, 0, 0, 1, 0],
        [1, 1, 0, 0, 0, 1],
    ]


def test_positions_are_those_of_the_model_for_the_unpacked_row(tiny: Tiny) -> None:
    policy = tiny("qwen2_vl")
    prompt = policy.chat.render(
        ask(IMAGE, "and", IMAGE), [noise_image(224, 84), noise_image(56, 56)]
    )
    completion = (5, 6, 7, 8)
    packed = pack(
        [PackItem(prompt=prompt, rows=(completion, completion))],
        mask_of("xxxx", "xxxx"),
        policy.backbone,
        pad_id=0,
    )
    ids = torch.tensor([[*prompt.ids, *completion[:-1]]])
    expected, _ = policy.model.model.get_rope_index(
        ids,
        mm_token_type_ids=(ids == policy.backbone.place_ids[0]).int(),
        image_grid_thw=torch.tensor([image.grid for image in prompt.images]),
    )
    length = len(prompt.ids)
    for start in (length, length + 3):
        row = torch.cat(
            [packed.positions[:, 0, :length], packed.positions[:, 0, start : start + 3]], 1
        )
        assert torch.equal(row, expected[:, 0])


def test_images_of_equal_content_are_collected_once(tiny: Tiny) -> None:
    policy = tiny("qwen2_vl")
    same, other = noise_image(56, 56, 1), noise_image(84, 56, 2)
    prompts = [
        policy.chat.render(ask(IMAGE, "a"), [same]),
        policy.chat.render(ask(IMAGE, IMAGE, "b"), [other, same]),
    ]
    images = policy.backbone.collect_images(prompts)
    assert [image.grid for image in images.distinct] == [(1, 4, 4), (1, 4, 6)]
    assert images.order.tolist() == [*range(4), *range(4, 10), *range(4)]


def test_masks_and_images_that_do_not_fit_are_refused(tiny: Tiny) -> None:
    policy = tiny("qwen2_vl")
    item = PackItem(prompt=Prompt(ids=(1, 2)), rows=((10,), (20, 21)))
    with pytest.raises(ValueError, match=r"mask \(1, 2\) for 2 rows"):
        pack([item], mask_of("xx"), policy.backbone, pad_id=0)
    with pytest.raises(ValueError, match="row 0: the mask goes beyond its tokens"):
        pack([item], mask_of("xx", "xx"), policy.backbone, pad_id=0)
    prompt = policy.chat.render(ask(IMAGE), [noise_image(56, 56)])
    image_token = policy.backbone.place_ids[0]
    three = tuple(i for i in prompt.ids if i != image_token) + (image_token,) * 3
    fine = PackItem(prompt=prompt, rows=((3,),))
    odd = PackItem(prompt=Prompt(ids=three, images=prompt.images), rows=((3,),))
    with pytest.raises(DataError, match=r"prompt 1: 3 image tokens .* 1 images have 4 features"):
        pack([fine, odd], mask_of("x", "x"), policy.backbone, pad_id=0)
    within = PackItem(prompt=prompt, rows=((3, image_token, 4),))
    with pytest.raises(DataError, match="image tokens in a completion that belong to none"):
        pack([within], mask_of("xxx"), policy.backbone, pad_id=0)
