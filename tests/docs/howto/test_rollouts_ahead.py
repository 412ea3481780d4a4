"""docs/howto/rollouts_ahead.md: its config and its command are accepted, and what it calls refused is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import ROOT, command, read_page, write_files
from vlrft.config.load import load_config
from vlrft.config.overrides import without_replaced
from vlrft.objectives.correction import Correction
from vlrft.schema.errors import ConfigError
from vlrft.trainer.stage_settings import find_choices

PAGE = read_page("docs/howto/rollouts_ahead.md")


def test_the_config_is_one_of_two_steps_ahead(tmp_path: Path) -> None:
    write_files(PAGE, tmp_path)
    config = load_config(str(tmp_path / "ahead.yaml"))
    ((algorithm, _),) = find_choices(config)
    assert algorithm.correction == Correction(level="sequence", rule="mask", cap=2.0)
    assert config.stages[0].rollout.ahead == 2


def changed(overrides: list[str], item: str) -> list[str]:
    return [*without_replaced(overrides, [item], []), item]


def test_the_command_is_accepted_and_without_its_engine_or_correction_refused() -> None:
    _, path, *overrides = command(PAGE, "rollout.ahead")
    config = load_config(str(ROOT / path), overrides)
    assert [stage.rollout.ahead for stage in config.stages] == [1] * len(config.stages)
    find_choices(config)
    with pytest.raises(ConfigError, match="engine hf samples with the module that is trained"):
        find_choices(load_config(str(ROOT / path), changed(overrides, "rollout.engine=hf")))
    with pytest.raises(ConfigError, match="need an importance correction, and gpg has none"):
        find_choices(load_config(str(ROOT / path), changed(overrides, "algorithm=gpg")))
