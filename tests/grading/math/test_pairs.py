"""Gold answers paired with answers as models write them: `tests/fixtures/math_pairs.tsv`, a pair a line.

A person decided which are equal, before any grader saw them.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import pytest
from vlrft.rewards.math_answer import math_answer

from vlrft.testing.small_policies import sample

TABLE = Path(__file__).parents[2] / "fixtures" / "math_pairs.tsv"


def read_pairs() -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Kind and whether they are equal -> gold answers and answers."""
    pairs = defaultdict(list)
    with TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            pairs[row["kind"], row["equal"]].append((row["gold answer"], row["answer"]))
    return pairs


PAIRS = read_pairs()


def test_the_table_has_pairs_of_both_kinds() -> None:
    count = {
        right: sum(len(PAIRS[key]) for key in PAIRS if key[1] == right) for right in ("yes", "no")
    }
    assert count["yes"] > 280
    assert count["no"] > 280


@pytest.mark.parametrize(("kind", "equal"), PAIRS)
def test_the_grade_of_a_pair_is_what_a_person_says(kind: str, equal: str) -> None:
    wrong = [
        (gold, answer)
        for gold, answer in PAIRS[kind, equal]
        if math_answer(f"<answer>{answer}</answer>", sample("pair", gold)) != (equal == "yes")
    ]
    assert wrong == []
