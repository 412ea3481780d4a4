"""Runs and evaluations of videos with a rollout engine that takes none."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlrft import evaluate
from vlrft.config.load import load_config
from vlrft.rollout.engines import find_rollout_engine, takes_videos
from vlrft.schema.errors import ConfigError
from vlrft.trainer.train import train

VIDEOS = """
task: {name: digits_moving, options: {train: 8, validation: 4}}
policy: {build: {family: qwen2_vl}}
rollout: {engine: {name: vllm, urls: ["http://127.0.0.1:9"]}, group_size: 2}
stages: [{name: warm, algorithm: sft, steps: 1}, {name: main, steps: 1}]
"""


@pytest.fixture(autouse=True)
def no_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **settings: object) -> None:
        raise AssertionError("a policy was loaded before the videos were refused")

    monkeypatch.setattr("vlrft.trainer.setup.load_policy", refuse)
    monkeypatch.setattr("vlrft.policy.load.load_policy", refuse)


def test_an_engine_takes_videos_unless_it_says_that_it_does_not() -> None:
    kinds = {name: find_rollout_engine({"name": name}) for name in ("hf", "vllm")}
    assert {name: takes_videos(kind) for name, kind in kinds.items()} == {"hf": True, "vllm": False}


@pytest.mark.parametrize(
    ("overrides", "where"),
    [((), "stage main"), (("stages.1.algorithm=sft",), "the evaluation")],
)
def test_a_run_is_refused_before_its_policy_is_loaded(
    tmp_path: Path, overrides: tuple[str, ...], where: str
) -> None:
    """Demonstrations are not sampled, so a stage of them alone is not refused, but its evaluation."""
    path = tmp_path / "c.yaml"
    path.write_text(VIDEOS)
    said = rf"rollout\.engine: vllm takes no videos, and {where} \(task digits_moving\) shows them"
    with pytest.raises(ConfigError, match=said):
        train(load_config(path, overrides), out=tmp_path / "run")
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_an_evaluation_is_refused_before_its_policy_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(VIDEOS)
    with pytest.raises(ConfigError, match=r"vllm takes no videos, and the evaluation"):
        evaluate(tmp_path, load_config(path), progress=False)
