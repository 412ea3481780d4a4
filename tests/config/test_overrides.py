from __future__ import annotations

from pathlib import Path

import pytest

from vlrft.config import Config, StageConfig
from vlrft.config.load import (
    dump_config,
    eval_config,
    load_config,
    prepare_config,
    task_config,
)
from vlrft.config.overrides import without_replaced
from vlrft.schema.errors import ConfigError

PLAIN = """
task: digits
policy: {build: {family: qwen2_vl}}
stages:
  - {algorithm: sft, steps: 5, update: {lr: 1e-3}}
  - {steps: 7, update: {lr: 4e-4}}
"""
PACK = {"choice": 1.0, "count": 1.0, "boxes": 1.0, "format": 0.1}


def load(tmp_path: Path, *overrides: str, text: str = PLAIN, to_train: bool = True) -> Config:
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, overrides, to_train=to_train)


def mistakes(tmp_path: Path, *overrides: str, text: str = PLAIN) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, *overrides, text=text)
    return [m.replace(f"{tmp_path}/", "") for m in caught.value.mistakes]


def weights(section: Config | StageConfig) -> dict[str, float]:
    return {name: r.weight for name, r in (section.task.rewards or {}).items()}


def test_a_value_that_stages_overrule_is_refused_and_the_stages_are_named(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "update.lr=9e-9") == [
        "update.lr=9e-9: has no effect on stages sft (0.001) and gpg (0.0004), which set their own; "
        "set stages.sft.update.lr=9e-9 stages.gpg.update.lr=9e-9"
    ]
    assert mistakes(tmp_path, "update={lr: 1e-5, eps: 1e-7}", "stages.0.update.lr=1e-5") == [
        "update.lr=1.0e-05: has no effect on stage gpg (0.0004), which sets its own; "
        "set stages.gpg.update.lr=1.0e-05"
    ]


@pytest.mark.parametrize(
    "overrides",
    [
        ("update.eps=1e-7",),
        ("update.lr=1e-5", "stages.sft.update.lr=1e-3", "stages.gpg.update.lr=1e-4"),
        ("update.lr=1e-5", "stages=[{steps: 1, update: {lr: 1}}]"),
        ("algorithm=grpo",),  # the warm-up keeps its own
        ("task.name=digits",),
        ("task=digits",),
    ],
)
def test_a_value_that_stages_inherit_or_that_is_given_for_them_too_is_kept(
    tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    assert load(tmp_path, *overrides).stages


def test_the_config_of_a_run_writes_out_its_stages_so_a_value_of_the_run_alone_is_refused(
    tmp_path: Path,
) -> None:
    written = dump_config(load(tmp_path))
    (line,) = mistakes(tmp_path, "rollout.top_k=5", text=written)
    assert "stages.sft.rollout.top_k=5 stages.gpg.rollout.top_k=5" in line
    (line,) = mistakes(tmp_path, "algorithm=grpo", text=written)
    assert "sft ('sft') and gpg ('gpg')" in line


def test_an_evaluation_reads_no_stages(tmp_path: Path) -> None:
    assert load(tmp_path, "update.lr=9e-9", to_train=False).update.lr == 9e-9


def test_a_stage_is_addressed_by_its_name_as_it_was_and_as_it_is(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "stages.gpg.algorithm=grpo",
        "stages.gpg.steps=3",
        "stages.grpo.prompts_per_step=2",
    )
    assert (config.stages[1].name, config.stages[1].steps) == ("grpo", 3)
    assert config.stages[1].prompts_per_step == 2
    assert mistakes(tmp_path, "stages.gpgg.steps=1") == [
        "stages.gpgg: no such stage; did you mean gpg? there are 0 or sft, 1 or gpg"
    ]


def test_one_weight_is_changed_and_the_others_are_kept(tmp_path: Path) -> None:
    config = load(tmp_path, "task.rewards.format=0.5")
    assert weights(config) == {**PACK, "format": 0.5}
    assert [weights(stage) for stage in config.stages] == [weights(config)] * 2


def test_a_reward_is_added_and_another_removed(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "task.rewards../mine.py=0.3",
        "task.rewards.math_answer.r1v=2",
        "task.rewards.boxes=null",
    )
    assert weights(config) == {
        "choice": 1.0, "count": 1.0, "format": 0.1, "./mine.py": 0.3, "math_answer.r1v": 2.0,
    }  # fmt: skip


def test_one_setting_of_a_reward_is_changed_and_its_weight_is_kept(tmp_path: Path) -> None:
    config = load(tmp_path, "task.rewards.format.workers=2")
    format_ = (config.task.rewards or {})["format"]
    assert (format_.weight, format_.workers) == (0.1, 2)


def test_a_stage_changes_a_reward_of_its_own(tmp_path: Path) -> None:
    config = load(tmp_path, "stages.gpg.task.rewards.format=0")
    assert config.task.rewards is None
    assert config.stages[0].task.rewards is None
    assert weights(config.stages[1]) == {**PACK, "format": 0.0}


def test_rewards_of_the_command_line_start_from_those_of_the_file(tmp_path: Path) -> None:
    text = PLAIN.replace("task: digits", "task: {name: digits, rewards: {choice: 3, count: 1}}")
    assert weights(load(tmp_path, "task.rewards.count=2", text=text)) == {
        "choice": 3.0,
        "count": 2.0,
    }
    assert weights(load(tmp_path, "task.rewards={format: 1}", text=text)) == {"format": 1.0}


def test_a_stage_with_rewards_of_its_own_or_another_pack_is_not_silently_left_out(
    tmp_path: Path,
) -> None:
    own = PLAIN.replace("{steps: 7,", "{steps: 7, task: {rewards: {choice: 1}},")
    assert mistakes(tmp_path, "task.rewards.choice=2", text=own) == [
        "task.rewards.choice=2: has no effect on stage gpg (1), which sets its own; "
        "set stages.gpg.task.rewards.choice=2"
    ]
    other = PLAIN.replace("{steps: 7,", "{steps: 7, task: {name: counting},")
    (line,) = mistakes(tmp_path, "task.rewards.format=0.5", text=other)
    assert "no effect on stage gpg (1.0)" in line


def test_a_reward_that_is_not_there_cannot_be_removed_and_an_unknown_one_not_added(
    tmp_path: Path,
) -> None:
    assert mistakes(tmp_path, "task.rewards.formt=null") == [
        "task.rewards.formt: no such reward to remove; did you mean format? there are choice, count, boxes, format"
    ]
    (line,) = mistakes(tmp_path, "task.rewards.formt=0.5")
    assert line.startswith("c.yaml: task.rewards: unknown reward 'formt'; did you mean format?")


def test_an_override_does_not_undo_an_earlier_one(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "task.rewards.format=0.5", "task={name: digits}") == [
        "task={name: digits}: replaces all of task, task.rewards.format=0.5 too; give it first"
    ]


def test_a_setting_of_an_algorithm_that_nobody_named_is_one_of_the_default(tmp_path: Path) -> None:
    config = load(tmp_path, "algorithm.regularize.kl=0.1", "stages.gpg.algorithm.reduction=token")
    assert config.algorithm == {"name": "gpg", "regularize": {"kl": 0.1}}
    assert config.stages[1].algorithm == {
        "name": "gpg", "regularize": {"kl": 0.1}, "reduction": "token",
    }  # fmt: skip


def test_a_task_by_name_has_its_rewards_changed_in_the_same_way() -> None:
    task = task_config("digits", ["rewards.format=0.5"])
    assert {k: r.weight for k, r in (task.rewards or {}).items()} == {**PACK, "format": 0.5}


def test_two_values_of_one_setting_are_refused(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "seed=1", "seed=2") == [
        "seed=2: seed=1 is given too; give one of them"
    ]
    assert mistakes(tmp_path, "stages.1.steps=3", "stages.gpg.steps=4") == [
        "stages.gpg.steps=4: stages.1.steps=3 is given too; give one of them"
    ]
    assert mistakes(tmp_path, "task.rewards.format=1", "task.rewards.format=2") == [
        "task.rewards.format=2: task.rewards.format=1 is given too; give one of them"
    ]
    assert load(tmp_path, "seed=1", "seed=1").seed == 1


def test_a_policy_is_either_loaded_or_built(tmp_path: Path) -> None:
    build, model = "policy.build.hidden_size=64", "policy.model=some/model"
    line = "is given too, and a policy is either loaded or built; give one of them"
    assert mistakes(tmp_path, build, model) == [f"{model}: {build} {line}"]
    assert mistakes(tmp_path, model, build)[0] == f"{build}: {model} {line}"
    assert load(tmp_path, "policy.build=null", model).policy.model == "some/model"
    assert load(tmp_path, model).policy.build is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("eval={limit: 1}", "eval.limit=5"),
        ("algorithm=grpo", "algorithm.name=gmpo"),
        ("task.rewards.format=0.5", "task.rewards.format.weight=2"),
        ("task.rewards={format: 1}", "task.rewards.format=0.5"),
        ("stages=[{steps: 3}]", "stages.0.steps=4"),
    ],
)
def test_a_value_in_a_section_that_is_given_whole_counts_as_given(
    tmp_path: Path, first: str, second: str
) -> None:
    assert mistakes(tmp_path, first, second)[0] == (
        f"{second}: {first} is given too; give one of them"
    )


def test_a_policy_that_is_given_whole_is_loaded_or_built_too(tmp_path: Path) -> None:
    (line, *_) = mistakes(tmp_path, "policy={build: {hidden_size: 64}}", "policy.model=foo")
    assert "a policy is either loaded or built" in line


def test_a_comment_in_a_value_is_no_silent_end_of_it(tmp_path: Path) -> None:
    (line,) = mistakes(tmp_path, "policy.model=m #2")
    assert line == (
        "policy.model=m #2: of YAML, # after a space begins a comment; put the value in quotes"
    )
    assert load(tmp_path, "policy.model='m #2'").policy.model == "m #2"
    assert load(tmp_path, "policy.model=m#2").policy.model == "m#2"


@pytest.mark.parametrize("model", ["m #2", "2024", "runs/a: b", "'quoted'", "ünï 😀", "null"])
def test_the_model_of_an_evaluation_is_taken_as_it_is_written(model: str) -> None:
    assert eval_config("digits", model, [])[1].model == model
    assert prepare_config("geoqa", model, [])[1].model == model


def test_what_another_setting_replaces_is_dropped_whatever_its_stage_is_called() -> None:
    items = ["stages.gpg.steps=3", "stages.0.steps=4", "engine.name=single", "seed=1"]
    changes = ["stages.1.steps=9", "engine={name: fsdp}"]
    assert without_replaced(items, changes, ["sft", "gpg"]) == ["stages.0.steps=4", "seed=1"]
