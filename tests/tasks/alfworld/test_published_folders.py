"""ALFRED's games in alfworld's folders: json_2.1.1, and $ALFWORLD_DATA above it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.published.forms import forms_of
from tests.tasks.published_matrix import CASES, RECORDS, use

(ALFRED,) = (case for case in CASES if case.record == "alfred")


@pytest.mark.parametrize("form", forms_of(RECORDS["alfred"]))
def test_a_published_folder_works(form: str, data: Path, tmp_path: Path) -> None:
    reasons = use(ALFRED, form, tmp_path, tmp_path, ("check", "show"), games=data)
    assert {step: why for step, why in reasons.items() if why} == {}
