from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from vlrft.cli.commands.list import rewards, tasks
from vlrft.plugins import find as plugins
from vlrft.plugins.find import (
    find_grader,
    find_reward,
    find_task,
    load_attribute,
    reward_names,
    reward_reference,
    task_names,
)
from vlrft.rollout.task import load_rewards
from vlrft.schema import Sample
from vlrft.schema.errors import ConfigError, PluginError

ROOT = Path(__file__).parents[2]


def test_every_folder_and_file_is_found_by_name() -> None:
    folders = {p.parent.name for p in (ROOT / "tasks").glob("*/__init__.py")}
    files = {p.stem for p in (ROOT / "rewards").glob("[!_]*.py")}
    assert set(task_names()) == folders
    assert {name.partition(".")[0] for name in reward_names()} == files
    assert files <= set(reward_names())
    assert all(find_task(name).name == name for name in folders)
    assert all(callable(find_reward(name)) for name in reward_names())


def test_a_tilde_in_a_reference_is_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell does not replace it within a config or a mapping of rewards."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.py").write_text("def mine(completion, sample):\n    return 0.5\n")
    for name in ("~/mine.py", "~/mine.py:mine"):
        assert find_reward(name)("", None) == 0.5
        assert reward_reference(name) == f"{tmp_path}/mine.py:mine"


def test_a_file_and_a_module_are_found_by_reference(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def half(completion, sample):\n    return 0.5\n")
    assert find_reward(f"{tmp_path}/mine.py:half")("", None) == 0.5
    assert load_attribute("vlrft.rewards.choice:choice") is find_reward("choice")


def test_an_unknown_name_says_what_is_near_and_lists_few_names_but_not_fifty() -> None:
    with pytest.raises(PluginError, match=r"'chioce'; did you mean choice\? `vlrft list rewards`"):
        find_reward("chioce")
    with pytest.raises(PluginError, match=r"'geoqaa'; did you mean geoqa\? known: alfworld, .*;"):
        find_task("geoqaa")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nowhere.at.all:x", "cannot import nowhere.at.all"),
        ("./none.py:x", "no such file"),
        ("vlrft.rewards.choice:chioce", "did you mean choice"),
        ("vlrft.rewards.choice:", "expected package.module:attribute"),
    ],
)
def test_a_wrong_reference_says_what_is_wrong(reference: str, message: str) -> None:
    with pytest.raises(PluginError, match=message):
        load_attribute(reference)


def test_the_wrong_kind_of_thing_is_refused() -> None:
    with pytest.raises(PluginError, match=r"expected a vlrft\.schema\.Task"):
        find_task("vlrft.rewards.choice:choice")
    with pytest.raises(PluginError, match="expected a function"):
        find_reward("vlrft.tasks.digits:task")


@pytest.fixture
def variants(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """rewards/choice.py with a released grader added."""
    module = importlib.import_module("vlrft.rewards.choice")

    def r1v(completion: str, sample: Sample) -> float:
        """As released: containment."""
        return 0.25

    offered = ["choice", "r1v", "LIMIT", "gone"]
    monkeypatch.setattr(module, "r1v", r1v, raising=False)
    monkeypatch.setattr(module, "LIMIT", 3, raising=False)
    monkeypatch.setattr(module, "__all__", offered, raising=False)
    return module


def test_the_variants_of_a_reward_have_names_with_a_dot(variants: ModuleType) -> None:
    assert find_reward("choice.r1v") is variants.r1v
    names = [name for name in reward_names() if name.split(".")[0] == "choice"]
    assert names == ["choice", "choice.r1v"]
    (named,) = load_rewards({"choice.r1v": 1.0})
    assert named.name == "choice.r1v"
    assert named.reference == "vlrft.rewards.choice:r1v"
    with pytest.raises(
        PluginError, match=r"unknown reward 'choice\.r2v'; did you mean choice\.r1v\?"
    ):
        find_reward("choice.r2v")
    with pytest.raises(PluginError, match=r"unknown reward 'choice\.LIMIT'"):
        find_reward("choice.LIMIT")
    assert rewards()["choice.r1v"]["doc"] == "As released: containment."


def test_a_reward_of_another_scope_cannot_grade(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def best(completions, sample):\n    return []\n")
    assert find_grader("choice") is find_reward("choice")
    with pytest.raises(PluginError, match="cannot grade"):
        find_grader(f"{tmp_path}/mine.py:best")


def test_an_unknown_signature_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def odd(text, gold: str = 'a') -> float:\n    return 0.0\n")
    with pytest.raises(PluginError, match=r"its parameters are \(text, gold='a'\); expected"):
        find_reward(f"{tmp_path}/mine.py:odd")


def test_two_rewards_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def choice(completion, sample):\n    return 0.5\n")
    with pytest.raises(ConfigError, match="two rewards are named choice"):
        load_rewards({"choice": 1.0, f"{tmp_path}/mine.py:choice": 1.0})


def test_a_plugin_that_cannot_be_loaded_hides_no_other_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = EntryPoint(name="broken", value="no_such_package:task", group="vlrft.tasks")
    twice = EntryPoint(name="choice", value="elsewhere:choice", group="vlrft.rewards")
    monkeypatch.setattr(plugins, "_entry_points", lambda kind: [broken, twice])
    assert tasks()["broken"]["doc"].startswith("cannot be loaded: no_such_package:task: cannot")
    assert "Scanned digits" in tasks()["digits"]["doc"]
    assert rewards()["choice"]["doc"].startswith("cannot be loaded: reward choice: found twice")
    assert not rewards()["count"]["doc"].startswith("cannot be loaded")


def test_a_name_that_two_places_define_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    other = EntryPoint(name="choice", value="elsewhere:choice", group="vlrft.rewards")
    monkeypatch.setattr(plugins, "_entry_points", lambda kind: [other])
    with pytest.raises(PluginError, match="found twice"):
        find_reward("choice")


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("x = 1\nimport sys; sys.exit(5)", "SystemExit: 5, line 2"),
        ("x = 1 / 0", "ZeroDivisionError: division by zero, line 1"),
        ("import no_such_package", "No module named 'no_such_package', line 1"),
        ("def f(:", "SyntaxError: invalid syntax (broken.py, line 1)"),
    ],
)
def test_a_file_that_cannot_be_imported_is_named_with_the_reason(
    tmp_path: Path, source: str, problem: str
) -> None:
    file = tmp_path / "broken.py"
    file.write_text(source)
    with pytest.raises(PluginError) as error:
        find_reward(f"{file}:x")
    assert str(error.value) == f"{file}:x: cannot import {file} ({problem})"
