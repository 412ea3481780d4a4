"""The own part of each row whose algorithm is another's: it does what the paper says, and the mistake of a reader is rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.systems.mutations import ROWS
from tests.systems.row import Row


@pytest.mark.parametrize("number", ROWS)
def test_a_row_does_what_its_paper_says_and_a_readers_mistake_is_rejected(
    number: int, tmp_path: Path
) -> None:
    mutant = ROWS[number]
    mutant.check(Row.of(number, tmp_path))
    wrong = mutant.row(number, tmp_path)
    with pytest.raises(AssertionError):
        mutant.check(wrong)
