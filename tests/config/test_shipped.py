"""Every file in configs/ loads, everything it names exists, and its dump loads back to an equal config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vlrft.config import TaskConfig
from vlrft.config.load import dump_config, load_config
from vlrft.plugins.find import find_task
from vlrft.rollout.task import LoadedTask, load_task
from vlrft.schema import Sample
from vlrft.testing.small_policies import sample
from vlrft.trainer.stage_settings import resolve_stages

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
OPTIONS = {"table": ("task.options.answer=math",)}  # without which a config cannot run
PUBLISHED = {"geoqa", "counting", "geometry3k", "textmath", "sat", "finegrained", "lisa"}


def without_data(task: TaskConfig, split: str) -> LoadedTask:
    """The loaded task with eight samples made here, as the hub may be out of reach."""

    def load(split: str, options: Any) -> Sequence[Sample]:
        return [sample(f"{split}/{k}", "1") for k in range(8)]

    pack = replace(find_task(task.name), load=load)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vlrft.config.configured.find_task", lambda name: pack)
        return load_task(task, split)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_every_config_loads_and_its_algorithms_and_rewards_fit(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(path, OPTIONS.get(path.stem, ()))
    monkeypatch.setattr("vlrft.trainer.stage_settings.load_task", without_data)
    stages = resolve_stages(config)
    assert all(stage.last > stage.first for stage in stages)
    assert all(stage.loaded.rewards or stage.loaded.task.env for stage in stages)
    assert stages[0].loaded.graders.rewards["strict"]
    assert config.eval.split in find_task(config.task.name).splits
    copy = tmp_path / "copy.yaml"
    copy.write_text(dump_config(config), encoding="utf-8")
    assert load_config(copy) == config


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_a_config_begins_with_a_description_and_its_name_fits(path: Path) -> None:
    config = load_config(path)
    assert path.read_text(encoding="utf-8").startswith("# ")
    if config.policy.build is None:
        pack = config.task.name
        assert path.stem == pack or path.stem.startswith(f"{pack}_")
        official = any("." in name for name in config.task.rewards or {})
        assert official == path.stem.endswith("_released")
        if path.stem.endswith("_released"):
            assert config.published is None or all(
                name.endswith("(official)") for name in config.published.scores
            )


def test_every_pack_with_published_rows_has_configs_of_both_kinds() -> None:
    names = {p.stem for p in CONFIGS}
    assert {"quickstart", "digits_full"} <= names
    for pack in PUBLISHED:
        of_pack = {n for n in names if n.startswith(f"{pack}_")}
        assert any(n.endswith("_released") for n in of_pack), pack
        assert any(not n.endswith("_released") for n in of_pack), pack
