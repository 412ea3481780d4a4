"""Renamed config keys and metrics: errors where people write them, replaced where a run wrote them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from vlrft.config import Config, renamed
from vlrft.config.errors import keys_of
from vlrft.config.load import load_config
from vlrft.config.renamed import CONFIG_KEYS, METRICS, migrate_config, migrate_metrics
from vlrft.reporting.html.run_data import read_run
from vlrft.reporting.run_log import RunLog
from vlrft.schema.errors import ConfigError
from vlrft.trainer.run_folder import RunFolder

OLD_RUN = Path(__file__).parents[1] / "fixtures" / "old_run"  # written before the renames
PLAIN = """
task: digits
policy: {build: {family: qwen2_vl}}
stages: [{steps: 7}]
log: {rollouts_per_step: 3}
image_threads: 1
seeds: 2
"""


@pytest.fixture
def old_run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(OLD_RUN, tmp_path / "run"))


def test_an_old_key_in_a_config_that_people_write_is_an_error_with_the_new_name(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(PLAIN)
    with pytest.raises(ConfigError) as caught:
        load_config(path, ["ranks.stuck=60"])
    assert caught.value.mistakes == [
        f"{path}: log.rollouts_per_step: renamed log.groups_per_step",
        f"{path}: ranks.stuck: renamed ranks.step_timeout",
        f"{path}: image_threads: renamed prefetch_threads",
        f"{path}: seeds: unknown key; did you mean seed?",
    ]


def test_an_old_key_of_a_stage_is_named_with_its_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renamed, "CONFIG_KEYS", {"rollout.samples": "rollout.group_size"})
    path = tmp_path / "x.yaml"
    path.write_text(PLAIN.split("log:")[0].replace("steps: 7", "steps: 7, rollout: {samples: 3}"))
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert caught.value.mistakes == [
        f"{path}: stages.0.rollout.samples: renamed stages.0.rollout.group_size"
    ]
    tree = {"stages": [{"rollout": {"samples": 3}}], "rollout": {"samples": 4}}
    migrate_config(tree)
    assert tree == {"stages": [{"rollout": {"group_size": 3}}], "rollout": {"group_size": 4}}


def test_the_config_of_an_old_run_is_read_and_the_run_may_be_resumed(old_run: Path) -> None:
    text = (old_run / "config.yaml").read_text()
    changed = text.replace("rollouts_per_step: 4", "rollouts_per_step: 5").replace("1800", "60")
    assert changed != text
    (old_run / "config.yaml").write_text(changed)
    config = load_config(old_run / "config.yaml")
    assert (config.log.groups_per_step, config.ranks.step_timeout) == (5, 60.0)
    assert (config.prefetch_threads, config.ranks.heartbeat_timeout) == (2, 180.0)
    with RunFolder(old_run, resume=True) as folder:
        folder.check(config)


def test_an_old_key_on_the_command_line_is_an_error_for_an_old_run_too(old_run: Path) -> None:
    with pytest.raises(ConfigError, match=r"image_threads: renamed prefetch_threads$"):
        load_config(old_run / "config.yaml", ["image_threads=0"])


def test_a_config_that_only_has_the_name_of_a_runs_own_is_not_migrated(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(PLAIN)
    with pytest.raises(ConfigError, match="renamed"):
        load_config(tmp_path / "config.yaml")


def test_the_metrics_of_an_old_run_are_reported_and_resumed_by_their_new_names(
    old_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renamed, "METRICS", {"entropy": "policy/entropy", "length/": "tokens/"})
    before = [json.loads(line) for line in (old_run / "metrics.jsonl").read_text().splitlines()]
    names = [n.replace("length/", "tokens/") for n in before[0]]
    names[names.index("entropy")] = "policy/entropy"
    assert [list(row) for row in read_run(old_run).metrics[:1]] == [names]
    log = RunLog(old_run, task="digits", algorithm="grpo", seed=0, total_steps=18)
    log.resume_from(13, fresh=False)
    log.close()
    after = [json.loads(line) for line in (old_run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in after] == [1, 13]
    assert list(after[0]) == names
    assert list(after[0].values()) == list(before[0].values())


def test_a_file_without_old_names_is_not_rewritten(old_run: Path) -> None:
    rows = [json.loads(line) for line in (old_run / "metrics.jsonl").read_text().splitlines()]
    text = "".join(json.dumps(migrate_metrics(row), indent=None) + " \n" for row in rows)
    (old_run / "metrics.jsonl").write_text(text)
    log = RunLog(old_run, task="digits", algorithm="grpo", seed=0, total_steps=18)
    log.resume_from(18, fresh=False)
    log.close()
    assert (old_run / "metrics.jsonl").read_text() == text


def test_every_new_name_exists_and_no_old_one_does() -> None:
    keys = set(keys_of(Config))
    assert set(CONFIG_KEYS.values()) <= keys
    assert not set(CONFIG_KEYS) & keys
    assert not set(CONFIG_KEYS) & set(CONFIG_KEYS.values())
    assert not set(METRICS) & set(METRICS.values())
    names = list(migrate_metrics({"play/won": 1.0, "env/cut": 0.0, "loss": 2.0}))
    assert names == ["episode/won", "env/truncated", "loss"]
    old = yaml.safe_load((OLD_RUN / "config.yaml").read_text())
    migrate_config(old)
    assert set(old) <= keys
