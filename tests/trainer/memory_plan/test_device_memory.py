"""The memory of this machine is at most what its container may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlrft.trainer.memory_plan import device_memory
from vlrft.trainer.memory_plan.device_memory import free_memory, host_memory


@pytest.mark.parametrize("text", ["1048576\n", "max\n"])
def test_a_container_has_no_more_than_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(device_memory, "CGROUP_LIMITS", (str(limit),))
    whole = host_memory()
    limit.write_text(text)
    assert host_memory() == (whole if text == "max\n" else 2**20)
    assert 0 < free_memory("cpu") <= host_memory()
