"""How far packed and replicated log-probs may be apart, by dtype."""

from __future__ import annotations

import pytest
import torch

from vlrft.policy.agreement import RowGap, require_agreement, row_bound
from vlrft.schema.errors import SelfCheckError


def row(*gaps: float, name: str = "s") -> RowGap:
    gap = torch.tensor([*gaps, 0.0])
    return RowGap.of(gap, torch.tensor([*(True for _ in gaps), False]), name)


def test_a_row_counts_its_masked_tokens() -> None:
    gap = row(0.1, 0.3)
    assert gap.tokens == 2
    assert gap.largest == pytest.approx(0.3)
    assert gap.mean == pytest.approx(0.2)


def test_rounding_of_an_unlikely_token_in_bfloat16_is_no_disagreement() -> None:
    usual = [row(*[0.015] * 8) for _ in range(30)]
    require_agreement([*usual, row(0.85, *[0.02] * 7), row(0.85)], torch.bfloat16)
    for dtype, bound in ((torch.float32, "0.0001"), (torch.float64, "1e-08")):
        with pytest.raises(SelfCheckError, match=rf"^s: .* differ by 0\.85, more than {bound} "):
            require_agreement([row(0.85, 0.0)], dtype)
        require_agreement([row(9e-9, 0.0)], dtype)


def test_one_row_at_fault_is_refused_in_half_precision_though_the_mean_is_small() -> None:
    usual = [row(*[0.01] * 8, name="good") for _ in range(200)]
    wrong = row(*[0.4] * 8, name="wrong")
    with pytest.raises(SelfCheckError, match=r"^wrong: .*0\.012 on average.*0\.4 in this row"):
        require_agreement([*usual, wrong], torch.bfloat16)


def test_a_difference_of_all_rows_is_refused_in_half_precision() -> None:
    with pytest.raises(
        SelfCheckError, match=r"0\.06 on average \(allowed in torch\.float16: 0\.05"
    ):
        require_agreement([row(*[0.06] * 8) for _ in range(4)], torch.float16)


def test_the_message_names_the_ways_out() -> None:
    with pytest.raises(SelfCheckError) as raised:
        require_agreement([row(2.0, 2.0)], torch.bfloat16)
    for way in ("policy.attention=eager", "policy.dtype=float32", "self_check=false"):
        assert way in str(raised.value)


def test_short_rows_may_differ_by_more_in_the_mean_than_long_ones() -> None:
    bounds = [row_bound(torch.bfloat16, n) for n in (1, 3, 6, 100)]
    assert bounds == [1.5, 0.5, 0.25, 0.25]
    assert row_bound(torch.float32, 1) == row_bound(torch.float32, 100) == 1e-4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_rows_without_tokens_agree_and_hide_no_other_row(dtype: torch.dtype) -> None:
    """Rollouts may all be empty, or some of them."""
    require_agreement([], dtype)
    require_agreement([row(), row()], dtype)
    with pytest.raises(SelfCheckError, match=r"^off: "):
        require_agreement([row(), row(2.0, 2.0, name="off"), row()], dtype)
