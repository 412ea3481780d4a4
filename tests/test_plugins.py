from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from vlrft import plugins
from vlrft.plugins import (
    PluginError,
    find_reward,
    find_task,
    load_attribute,
    reward_names,
    task_names,
)

ROOT = Path(__file__).parent.parent


def test_every_folder_and_file_is_found_by_name() -> None:
    folders = {p.parent.name for p in (ROOT / "tasks").glob("*/__init__.py")}
    files = {p.stem for p in (ROOT / "rewards").glob("*.py")} - {"__init__"}
    assert set(task_names()) == folders
    assert set(reward_names()) == files
    assert all(find_task(name).name == name for name in folders)
    assert all(callable(find_reward(name)) for name in files)


def test_a_file_and_a_module_are_found_by_reference(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def half(completion, sample):\n    return 0.5\n")
    assert find_reward(f"{tmp_path}/mine.py:half")("", None) == 0.5  # type: ignore[arg-type]
    assert load_attribute("vlrft.rewards.choice:choice") is find_reward("choice")


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(
        PluginError, match=r"reward 'chioce' is unknown; did you mean choice\?; known: boxes"
    ):
        find_reward("chioce")


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


def test_a_name_that_two_places_offer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    other = EntryPoint(name="choice", value="elsewhere:choice", group="vlrft.rewards")
    monkeypatch.setattr(plugins, "entry_points", lambda group: [other])
    with pytest.raises(PluginError, match="found twice"):
        find_reward("choice")
