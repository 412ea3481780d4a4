"""Every file in configs/ loads, and its dump loads back to the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlrft.assemble import make_stages
from vlrft.loading import dump_config, load_config

CONFIGS = sorted((Path(__file__).parent.parent / "configs").glob("*.yaml"))


def test_there_are_configs() -> None:
    assert {"quickstart", "digits_full"} <= {p.stem for p in CONFIGS}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_every_config_loads_and_its_methods_fit(path: Path, tmp_path: Path) -> None:
    config = load_config(path)
    assert [s.last - s.first for s in make_stages(config)] == [s.steps for s in config.stages]
    copy = tmp_path / "copy.yaml"
    copy.write_text(dump_config(config), encoding="utf-8")
    assert load_config(copy) == config
