"""The plan of a run's memory is printed before it starts, and a run that cannot fit is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from vlrft.cli.main import main
from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.memory.shapes import PromptSize
from vlrft.policy.tiny import build_model
from vlrft.rollout import task as tasks
from vlrft.rollout.task import load_task
from vlrft.schema.errors import ConfigError
from vlrft.trainer.memory_plan import model_shapes, prompt_lengths, verdict
from vlrft.trainer.memory_plan.planner import Planner, RunTasks, step_work
from vlrft.trainer.memory_plan.prompt_lengths import TaskPrompts
from vlrft.trainer.memory_plan.verdict import check_memory

TINY = """
task: {name: digits, options: {subtasks: [count]}}
policy:
  build: {hidden_size: 32, layers: 1, heads: 4, kv_heads: 2, intermediate_size: 32, vision_width: 32, vision_layers: 1}
rollout: {group_size: 2, max_tokens: 2}
stages:
  - {steps: 1, prompts_per_step: 8}
eval: {limit: 2}
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "tiny.yaml").write_text(TINY)
    return load_config(str(tmp_path / "tiny.yaml"))


@pytest.fixture
def loaded(config: Config) -> RunTasks:
    stages = tuple(load_task(stage.task, "train") for stage in config.stages)
    return RunTasks(stages=stages, evaluation=load_task(config.task, "test"))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes this machine one with so many bytes."""

    def shrink(size: int) -> None:
        monkeypatch.setattr(verdict, "available_memory", lambda *_: (size, "this CPU"))

    return shrink


def test_the_plan_makes_the_model_once(
    config: Config, loaded: RunTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []

    def make(*arguments: Any) -> Any:
        made.append(build_model(*arguments))
        return made[-1]

    monkeypatch.setattr(model_shapes, "build_model", make)
    Planner(config, "cpu", 1, loaded).plans(config)
    assert len(made) == 1


def test_the_line_has_the_peak_of_doctor_its_phase_and_the_memory_of_the_device(
    config: Config, loaded: RunTasks
) -> None:
    (stage,) = Planner(config, "cpu").plans(config)
    peak = stage.plan.peak
    line = check_memory(config, loaded, ALONE).line
    assert line.startswith(f"peak about {peak.total / 2**20:.0f} MiB ({peak.name}, {peak.moment}) ")
    assert "on this CPU with " in line
    assert line.endswith("GiB of it free now")


def test_the_tasks_of_the_run_are_planned_without_reading_them_again(
    config: Config, loaded: RunTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("a task is read a second time")

    monkeypatch.setattr(prompt_lengths, "load_task", refuse)
    monkeypatch.setattr(tasks, "load_task", refuse)
    assert check_memory(config, loaded, ALONE).line.startswith("peak about ")


def test_a_run_without_evaluations_is_planned_without_them(
    config: Config, loaded: RunTasks
) -> None:
    (stage,) = Planner(config, "cpu", 1, replace(loaded, evaluation=None)).plans(config)
    assert "evaluation" not in {phase.name for phase in stage.plan.phases}


def test_several_ranks_are_planned_with_a_share_of_the_prompts(
    config: Config, loaded: RunTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    line = check_memory(config, loaded, Ranks(rank=0, size=4)).line
    (stage,) = Planner(config, "cpu", 4).plans(config)
    assert line.startswith(f"peak about {stage.plan.peak.total / 2**20:.0f} MiB ")
    assert ", shared by 2 ranks, " in line


def test_an_impossible_run_is_refused_before_anything_is_written_with_a_setting_that_fits(
    loaded: RunTasks,
    tmp_path: Path,
    small: Callable[[int], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    wide = ("rollout.group_size=16", "rollout.max_tokens=64")
    config = load_config(str(tmp_path / "tiny.yaml"), wide)
    (stage,) = Planner(config, "cpu", 1, loaded).plans(config)
    small(stage.plan.peak.total - 1)
    out = tmp_path / "run"
    assert main(["train", str(tmp_path / "tiny.yaml"), *wide, "--out", str(out)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("vlrft: memory: the run needs ")
    assert " at its peak and its device has " in line
    assert "update.max_tokens_per_micro_batch=" in line
    assert line.endswith("memory_check=false starts it as it is")
    assert not out.exists()


def test_memory_check_false_starts_it_and_says_so(
    config: Config, loaded: RunTasks, small: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    (stage,) = Planner(config, "cpu", 1, loaded).plans(config)
    small(stage.plan.peak.total - 1)
    monkeypatch.setattr(verdict, "propose", lambda *_: None)
    with pytest.raises(ConfigError, match=r"needs .* no change that vlrft tries makes it fit"):
        check_memory(config, loaded, ALONE)
    line = check_memory(replace(config, memory_check=False), loaded, ALONE).line
    assert line.endswith("more than there is, and started all the same (memory_check=false)")


def test_a_run_that_leaves_no_tenth_free_may_not_fit(
    config: Config, loaded: RunTasks, small: Callable[[int], None]
) -> None:
    (stage,) = Planner(config, "cpu").plans(config)
    small(stage.plan.peak.total + 1)
    assert "; may not fit; vlrft doctor" in check_memory(config, loaded, ALONE).line


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConfigError(["policy.model=x: no such folder"]), "policy.model=x: no such folder"),
        (AttributeError("no num_attention_heads"), "AttributeError: no num_attention_heads"),
    ],
)
def test_a_run_that_cannot_be_planned_says_why_and_goes_on(
    config: Config,
    loaded: RunTasks,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    reason: str,
) -> None:
    def fail(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(verdict, "Planner", fail)
    assert check_memory(config, loaded, ALONE).line == f"not planned: {reason}"


def test_an_engine_without_a_memory_model_is_never_refused(
    config: Config, loaded: RunTasks, small: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    small(1000)
    real = Planner.plans
    monkeypatch.setattr(
        Planner,
        "plans",
        lambda self, config: [replace(s, engine_modelled=False) for s in real(self, config)],
    )
    assert "the engine has no memory model" in check_memory(config, loaded, ALONE).line


@pytest.mark.parametrize(
    ("part", "group"),
    [
        ("replay: {name: fifo, add: 3}", 5),
        ("inject: {name: gold, replace: false}", 3),
        ("inject: {name: gold}", 2),
    ],
)
def test_rollouts_that_join_a_group_are_planned(config: Config, part: str, group: int) -> None:
    algorithm = yaml.safe_load(f"{{name: grpo, {part}}}")
    stage = replace(config.stages[0], algorithm=algorithm)
    prompts = TaskPrompts(sizes=(PromptSize(tokens=9),), origin="")
    work = step_work(config, stage, prompts, ranks=1)
    assert (work.group, work.rollout and work.rollout.answers) == (group, 2)
