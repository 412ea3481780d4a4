"""Configs that extend others, shipped ones by name, epochs, and the results that papers report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vlrft.cli.main import main
from vlrft.config.load import dump_config, load_config
from vlrft.config.shipped import find_config, shipped_configs
from vlrft.schema.errors import ConfigError
from vlrft.trainer.stage_settings import resolve_stages

BASE = """
task: {name: digits, options: {canvas: [140], train: 300}, rewards: {choice: 1.0, count: 1.0}}
policy: {build: {family: qwen2_vl}}
stages:
  - {steps: 3, prompts_per_step: 16}
published: {source: A paper, scores: {classify: 50.0, count: 60.0}}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.yaml").write_text(BASE)


def write(name: str, text: str) -> Path:
    Path(name).write_text(text)
    return Path(name)


def test_a_file_contains_only_what_differs_from_the_one_it_extends() -> None:
    write("middle.yaml", "extends: base.yaml\nalgorithm: grpo\nseed: 3\n")
    (Path("sub")).mkdir()
    last = write(
        "sub/last.yaml",
        "extends: ../middle.yaml\nseed: 4\ntask: {options: {canvas: [112]}, rewards: {format: 1.0}}\n"
        "published: {source: Another}\n",
    )
    config = load_config(last, ["stages.0.steps=5"])
    assert (config.algorithm, config.seed, config.stages[0].steps) == ("grpo", 4, 5)
    assert config.task.options == {"canvas": [112], "train": 300}
    assert list(config.task.rewards or {}) == ["format"]  # replaced as a whole
    assert config.published is not None
    assert (config.published.source, config.published.scores) == ("Another", {})
    write("copy.yaml", dump_config(config))
    assert load_config("copy.yaml") == config


def test_files_that_extend_each_other_or_nothing_are_refused() -> None:
    write("a.yaml", "extends: b.yaml\n")
    write("b.yaml", "extends: a.yaml\n")
    with pytest.raises(ConfigError, match=r"b.yaml: extends: a.yaml extends this file in turn"):
        load_config("a.yaml")
    with pytest.raises(ConfigError, match=r"gone.yaml: cannot be read"):
        load_config(write("c.yaml", "extends: gone.yaml\n"))
    with pytest.raises(ConfigError, match="extends: expected the name of a file, got 3"):
        load_config(write("d.yaml", "extends: 3\n"))


def test_shipped_configs_are_found_by_name_after_files_of_the_working_directory() -> None:
    assert load_config("quickstart").task.name == "digits"
    assert find_config("quickstart") == shipped_configs()["quickstart"]
    write("quickstart", BASE)
    assert find_config("quickstart") == Path("quickstart")
    with pytest.raises(ConfigError, match="nothing_like_it: cannot be read"):
        load_config("nothing_like_it")


def test_epochs_are_counted_in_prompts() -> None:
    config = load_config("base.yaml", ["stages.0.steps=null", "stages.0.epochs=2"])
    (stage,) = resolve_stages(config)
    assert (stage.first, stage.last) == (0, round(2 * 300 / 16))
    with pytest.raises(ConfigError, match=r"stages.0: give either steps or epochs$"):
        load_config("base.yaml", ["stages.0.epochs=2"])
    with pytest.raises(ConfigError, match=r"stages.0: give either steps or epochs$"):
        load_config("base.yaml", ["stages.0.steps=null"])


def test_several_answers_need_a_temperature() -> None:
    with pytest.raises(ConfigError, match="eval: answers 4 at temperature 0 are all the same"):
        load_config("base.yaml", ["eval.answers=4"])
    assert load_config("base.yaml", ["eval.answers=4", "eval.temperature=0.5"]).eval.answers == 4


def test_top_p_needs_a_temperature() -> None:
    with pytest.raises(ConfigError, match=r"eval: top_p 0\.9 has no effect at temperature 0"):
        load_config("base.yaml", ["eval.top_p=0.9"])
    assert load_config("base.yaml", ["eval={top_p: 0.9, temperature: 0.5}"]).eval.top_p == 0.9


def test_the_configs_are_listed_with_the_results_of_their_papers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "vlrft.cli.commands.list.shipped_configs", lambda: {"base": Path("base.yaml")}
    )
    assert main(["list", "configs"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["config", "task", "model", "stages"]
    assert "digits" in line
    assert line.endswith("A paper  classify 50, count 60")
    assert main(["list", "configs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["base"]["model"] == "built qwen2_vl"
