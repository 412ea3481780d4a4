"""Letters -> score of `choices`."""

from __future__ import annotations

import pytest
from vlrft.rewards.choices import choices

from vlrft.schema import DataError
from vlrft.testing.small_policies import sample

GOLD = sample("x", ["A", "C", "D"], answer="choices")


@pytest.mark.parametrize(
    ("answer", "score"),
    [("A, C, D", 1.0), ("d,c , a,a", 1.0), ("C", 1 / 3), ("A,C", 2 / 3), ("A,B", 0.0), ("", 0.0)],
)
def test_a_part_of_the_right_choices_earns_its_share(answer: str, score: float) -> None:
    assert choices(f"<answer>{answer}</answer>", GOLD) == pytest.approx(score)


def test_gold_choices_may_be_one_text_and_have_to_be_some() -> None:
    assert choices("<answer>b,a</answer>", sample("x", "A,B", answer="choices")) == 1.0
    assert choices("<answer>a</answer>", sample("x", "a", answer="class")) is None
    for gold in ("", ",", [], [1], None):
        with pytest.raises(DataError, match="has no choices"):
            choices("<answer>a</answer>", sample("x", gold, answer="choices"))
