from __future__ import annotations

from pathlib import Path

import pytest

from vlrft.config import Config
from vlrft.config.load import dump_config, eval_config, load_config, task_config
from vlrft.schema.errors import ConfigError

PLAIN = """
task: digits
policy: {build: {family: qwen2_vl}}
rollout: {group_size: 4}
stages:
  - {algorithm: sft, steps: 5, update: {lr: 1e-3}}
  - {steps: 7}
  - {steps: 2, task: {options: {canvas: [112]}}}
"""


def load(tmp_path: Path, *overrides: str, text: str = PLAIN) -> Config:
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, overrides)


def mistakes(tmp_path: Path, *overrides: str, text: str = PLAIN) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, *overrides, text=text)
    return [m.replace(f"{tmp_path}/", "") for m in caught.value.mistakes]


def test_stages_start_from_the_runs_own_settings(tmp_path: Path) -> None:
    config = load(tmp_path, "update.weight_decay=0.1")
    sft, gpg, last = config.stages
    assert (sft.name, gpg.name, last.name) == ("sft", "gpg", "gpg_2")
    assert (sft.update.lr, gpg.update.lr) == (1e-3, 1e-6)
    assert {s.update.weight_decay for s in config.stages} == {0.1}
    assert {s.rollout.group_size for s in config.stages} == {4}
    assert (gpg.task.options, last.task.options) == ({}, {"canvas": [112]})


def test_overrides_reach_stages_and_the_runs_algorithm(tmp_path: Path) -> None:
    config = load(
        tmp_path, "algorithm=grpo", "stages.0.steps=9", "stages.1.update.lr=3e-4", "seed=4"
    )
    assert [s.algorithm for s in config.stages] == ["sft", "grpo", "grpo"]
    assert (config.stages[0].steps, config.stages[1].update.lr, config.seed) == (9, 3e-4, 4)


def test_a_model_replaces_a_build_and_the_reverse(tmp_path: Path) -> None:
    assert load(tmp_path, "policy.model=Qwen/Qwen2-VL-2B-Instruct").policy.build is None
    hub = PLAIN.replace("{build: {family: qwen2_vl}}", "{model: some/where}")
    built = load(tmp_path, "policy.build.family=qwen2_5_vl", text=hub).policy
    assert built.model is None
    assert built.build is not None
    assert built.build.family == "qwen2_5_vl"


def test_all_mistakes_come_at_once_with_hints(tmp_path: Path) -> None:
    lines = mistakes(
        tmp_path,
        "rollout.groupsize=3",
        "update.lr=warm",
        "stage=1",
        "task.options.subtask=[x]",
        "seed",
    )
    assert lines == [
        "seed: expected key.path=value",
        "c.yaml: rollout.groupsize: unknown key; did you mean rollout.group_size?",
        "c.yaml: update.lr: expected a number, got 'warm'",
        "c.yaml: stage: unknown key; did you mean stages?",
        "c.yaml: task.options.subtask: unknown key; did you mean subtasks?",
    ]


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "stages.0.rollut=1",
            "c.yaml: stages.0.rollut: unknown key; did you mean stages.0.rollout?",
        ),
        ("stages.5.steps=1", "stages.5: expected a number from 0 to 2"),
        (
            "stages=[]",
            "c.yaml: stages: expected at least one item, got []",
        ),
        ("stages.0.steps=0", "c.yaml: stages.0.steps: 0 is out of range; allowed: at least 1"),
        (
            "policy.build=null",
            "c.yaml: policy: give either model (a hub id or a folder) or build (a small model made here)",
        ),
        ("stages.1.name=sft", "c.yaml: stages: two stages are named 'sft'"),
        (
            "rollout.group_size=2.5",
            "c.yaml: rollout.group_size: expected a whole number, got 2.5",
        ),
        ("self_check=maybe", "c.yaml: self_check: expected true or false, got 'maybe'"),
        ("task=5", "c.yaml: task: expected a section of keys, got 5"),
        ("stages=sft", "c.yaml: stages: expected a list, got 'sft'"),
        ("stages.².steps=1", "stages.²: no such stage; there are 0 or sft, 1 or gpg, 2 or gpg_2"),
        ("update..lr=1", "update..lr=1: expected key.path=value"),
        (
            "seed=2026-13-45",
            "seed=2026-13-45: the value is not valid YAML: month must be in 1..12",
        ),
    ],
)
def test_a_mistake_says_what_where_and_what_is_allowed(
    tmp_path: Path, override: str, expected: str
) -> None:
    assert mistakes(tmp_path, override) == [expected]


def test_yes_and_no_are_not_numbers(tmp_path: Path) -> None:
    lines = mistakes(tmp_path, "seed=true", "rollout.group_size=yes")
    assert [m.split(":")[1].strip() for m in lines] == ["rollout.group_size", "seed"]


def test_an_unknown_task_is_reported_once_with_a_hint(tmp_path: Path) -> None:
    (only,) = mistakes(tmp_path, "task.name=digit")
    assert "did you mean digits?" in only


def test_files_without_a_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match=r"did you mean quickstart\? .*`vlrft list configs`"):
        load_config("quikstart")
    assert mistakes(tmp_path, text="") == [
        "c.yaml: is empty; expected keys such as task, policy and stages"
    ]
    assert "contains a list" in mistakes(tmp_path, text="- 1")[0]
    assert mistakes(tmp_path, text="a: 1\nb: [\n") == [
        "c.yaml: not valid YAML: line 3, column 1: while parsing a flow node: "
        "expected the node content, but found '<stream end>'"
    ]
    assert "'seed' is given twice" in mistakes(tmp_path, text=PLAIN + "seed: 1\nseed: 2\n")[0]
    assert "not valid YAML" in mistakes(tmp_path, text="a: !!python/object/apply:os.system [ls]")[0]


def test_an_impossible_date_is_reported_as_invalid_yaml(tmp_path: Path) -> None:
    (only,) = mistakes(tmp_path, text=PLAIN + "seed: 2026-13-45\n")
    assert only == "c.yaml: not valid YAML: month must be in 1..12"


def test_yaml_merge_keys_work_and_may_be_set_again(tmp_path: Path) -> None:
    text = PLAIN.replace("rollout: {group_size: 4}", "rollout: &r {group_size: 4, max_tokens: 9}")
    again = "  - {steps: 1, name: more, rollout: {<<: *r, group_size: 6}}\n"
    (*_, last) = load(tmp_path, text=text + again).stages
    assert (last.rollout.group_size, last.rollout.max_tokens) == (6, 9)


def test_commands_take_a_task_and_rollout_settings_without_a_file() -> None:
    overrides = [
        "options.canvas=[140]",
        "rollout.max_tokens=9",
        "eval={temperature: 1, top_p: 0.9}",
        "policy.dtype=float64",
    ]
    task, policy, rollout, decoding = eval_config("digits", "some/model", overrides)
    assert (task.options, rollout.max_tokens) == ({"canvas": [140]}, 9)
    assert (policy.model, policy.dtype, decoding.top_p) == ("some/model", "float64", 0.9)
    with pytest.raises(ConfigError, match="did you mean canvas"):
        task_config("digits", ["options.canva=[140]"])


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ("{choice: high}", "expected a weight such as 1.0, or a section"),
        ("{choice: true}", "expected a weight such as 1.0, or a section"),
        ("{choice: .nan}", "nan is out of range; allowed: every finite number"),
        ("{choice: {wieght: 1}}", "unknown key; did you mean task.rewards.choice.weight"),
        ("{./mine.py:x: {worker: 1}}", "did you mean task.rewards../mine.py:x.workers"),
        ("{choice: {memory_gb: 1}}", "a memory_gb needs workers"),
        ("{choice: {on_error: skip}}", "unknown on_error 'skip'; known: raise, zero"),
    ],
)
def test_a_wrong_section_of_a_reward_says_what_is_allowed(
    tmp_path: Path, rewards: str, message: str
) -> None:
    (line,) = mistakes(tmp_path, f"task.rewards={rewards}")
    assert message in line


def test_the_section_of_a_reward_survives_a_round_trip(tmp_path: Path) -> None:
    section = "{weight: 0.5, workers: 2, time_limit: 3, on_error: zero}"
    config = load(tmp_path, f"task.rewards={{choice: {section}, count: 1}}")
    written = dump_config(config)
    assert "count: 1.0" in written
    assert load(tmp_path, text=written) == config


def test_an_adapter_names_its_base_itself(tmp_path: Path) -> None:
    config = load(tmp_path, "policy.build=null", "policy.adapter=owner/adapter")
    assert (config.policy.model, config.policy.adapter) == (None, "owner/adapter")


def test_a_command_with_a_task_says_how_a_key_of_a_config_is_given_to_it() -> None:
    with pytest.raises(ConfigError) as caught:
        task_config("digits", ["task.options.canvas=[140]"])
    assert caught.value.mistakes == [
        "task.options.canvas: the task is named here, so give options.canvas=…"
    ]
