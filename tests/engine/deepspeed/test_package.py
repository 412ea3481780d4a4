"""The one line of error where deepspeed cannot be imported."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from vlrft.engine.deepspeed.package import import_deepspeed
from vlrft.schema.errors import ConfigError

ADVICE = r"; pip install 'vlrft\[deepspeed\]', or engine=fsdp, which shards with PyTorch alone$"


@pytest.fixture
def without_deepspeed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DS_ACCELERATOR", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "deepspeed"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("without_deepspeed")
def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    with pytest.raises(ConfigError, match=f"^engine: deepspeed is not installed{ADVICE}"):
        import_deepspeed("cpu")
    assert not {"DS_ACCELERATOR", "LOCAL_RANK"} & os.environ.keys()


@pytest.mark.usefixtures("without_deepspeed")
def test_a_package_that_deepspeed_misses_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "deepspeed").mkdir()
    (tmp_path / "deepspeed/__init__.py").write_text("import hjson_of_another_place\n")
    monkeypatch.syspath_prepend(tmp_path)
    reason = r"cannot be imported \(No module named 'hjson_of_another_place'\)"
    with pytest.raises(ConfigError, match=f"^engine: deepspeed {reason}{ADVICE}"):
        import_deepspeed("cpu")
