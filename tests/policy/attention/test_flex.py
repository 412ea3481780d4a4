"""flex_attention's blocks from the bounds of the segments, against the mask itself."""

from __future__ import annotations

import pytest
import torch

from tests.policy.attention.counts import Counts
from tests.policy.attention.layouts import LAYOUTS, packed_rows
from vlrft.policy.attention import flex
from vlrft.policy.attention.dense import block_mask
from vlrft.policy.attention.flex import find_blocks, sparse_mask
from vlrft.policy.attention.rows import PackedRows


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_block_is_run_where_a_query_attends_to_a_key(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = LAYOUTS[layout]
    monkeypatch.setattr(flex, "BLOCK", 4)
    size = -(-rows.width // 4) * 4
    mask = torch.zeros(len(rows.segments), size, size, dtype=torch.bool)
    mask[:, : rows.width, : rows.width] = block_mask(rows.ids())
    blocks = mask.view(len(mask), size // 4, 4, size // 4, 4).any(4).any(2)
    found = torch.from_numpy(find_blocks(rows))
    assert not (blocks & ~found).any()  # none is missing
    # padding's own blocks, and a block where one segment ends and another begins
    assert int((found & ~blocks).sum()) <= len(mask) * size // 4


def test_the_block_mask_says_what_the_mask_says() -> None:
    rows = packed_rows((200, 100, 30), (150, 60, 60))
    mask = sparse_mask(rows, torch.device("cpu"))
    dense = torch.zeros(2, 3, 3, dtype=torch.bool)
    counts, order = mask.kv_num_blocks[:, 0], mask.kv_indices[:, 0]
    for row in range(2):
        for block in range(3):
            dense[row, block, order[row, block, : counts[row, block]]] = True
    assert torch.equal(dense, torch.from_numpy(find_blocks(rows)))
    places = torch.meshgrid(*map(torch.arange, (2, 330, 330)), indexing="ij")
    assert torch.equal(mask.mask_mod(places[0], 0, *places[1:]), block_mask(rows.ids()))


def test_nothing_of_the_rows_length_squared_is_made() -> None:
    rows = PackedRows(segments=((2000, *[500] * 4),), width=4000)
    with Counts() as counts:
        sparse_mask(rows, torch.device("cpu"))
    assert 0 < counts.largest <= 4 * 4000
