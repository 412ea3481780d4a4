"""Every option of a shipped pack is explained where `vlrft show PACK` prints it."""

from __future__ import annotations

from dataclasses import fields

import pytest

from vlrft.config.field_docs import field_docs
from vlrft.plugins.find import find_task, task_names


@pytest.mark.parametrize("name", task_names())
def test_every_option_of_a_pack_is_explained(name: str) -> None:
    options = find_task(name).options
    assert [f.name for f in fields(options) if not field_docs(options).get(f.name)] == []


def test_a_history_of_a_growing_context_is_refused() -> None:
    options = find_task("alfworld").options
    with pytest.raises(ValueError, match="history: has no effect with context: growing"):
        options(context="growing", history=4)
    assert options(context="growing").history == options(history=2).history
