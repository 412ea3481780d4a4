"""Labels -> score of `jaccard`."""

from __future__ import annotations

import pytest
from vlrft.rewards.jaccard import jaccard

from vlrft.schema import DataError
from vlrft.testing.small_policies import sample

# A gold text of MedTVT-R1's label_mapping, without its tags
THREE = sample(
    "x",
    "Acute Kidney Failure, Unspecified; Atrial Fibrillation;Essential (Primary) Hypertension",
    answer="labels",
)


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        (
            "Atrial Fibrillation; Acute Kidney Failure, Unspecified; Essential (Primary) Hypertension",
            1.0,
        ),
        ("atrial  fibrillation;ATRIAL FIBRILLATION", 1 / 3),
        ("Atrial Fibrillation; Sepsis, unspecified organism", 1 / 4),
        ("Atrial", 0.0),
        (";;", 0.0),
        ("", 0.0),
    ],
)
def test_the_share_of_common_labels(answer: str, score: float) -> None:
    assert jaccard(f"<think></think><answer>{answer}</answer>", THREE) == pytest.approx(score)


def test_gold_labels_may_be_a_list_and_have_to_be_some() -> None:
    assert jaccard("<answer>b;a</answer>", sample("x", ["a", "b"], answer="labels")) == 1.0
    assert jaccard("<answer>a</answer>", sample("x", "a", answer="class")) is None
    for gold in ("", " ; ", [], [1], 3, None):
        with pytest.raises(DataError, match="not a set of labels"):
            jaccard("<answer>a</answer>", sample("x", gold, answer="labels"))
