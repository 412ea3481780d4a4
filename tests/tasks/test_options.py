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
