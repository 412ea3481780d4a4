"""Kinds of a part by name: the files of a folder, entry points, references."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from vlrft.plugins import kinds as module
from vlrft.plugins.kinds import Kinds
from vlrft.schema.errors import PluginError

FILE = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Mine:
    size: int = 1

number = 3
"""


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kinds:
    """A package with one kind and one file of another sort; an entry point to a file's class."""
    folder = tmp_path / "parts_of_a_test"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "first.py").write_text(f"{FILE}\nKIND = Mine\n")
    (folder / "helper.py").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = EntryPoint("installed", "parts_of_a_test.helper:Mine", "parts")
    clash = EntryPoint("first", "parts_of_a_test.helper:Mine", "parts")
    offers = {"parts": [entry], "clashing": [clash]}
    monkeypatch.setattr(module, "entry_points", lambda group: offers.get(group, []))
    return Kinds("parts_of_a_test", "parts")


def test_files_and_entry_points_are_kinds_and_other_files_are_not(parts: Kinds) -> None:
    assert list(parts) == ["first", "installed"]
    assert len(parts) == 2
    assert parts["first"]().size == parts["installed"]().size == 1
    assert "helper" not in parts
    assert "second" not in parts


def test_a_reference_names_a_kind(parts: Kinds, tmp_path: Path) -> None:
    assert parts["parts_of_a_test.helper:Mine"]().size == 1
    (tmp_path / "own.py").write_text(FILE)
    assert parts[f"{tmp_path / 'own.py'}:Mine"]().size == 1


def test_a_kind_must_be_a_dataclass(parts: Kinds) -> None:
    with pytest.raises(PluginError, match=r"helper:number: found 3, expected a dataclass"):
        parts["parts_of_a_test.helper:number"]


def test_a_name_that_two_places_define_is_refused(parts: Kinds) -> None:
    clashing = Kinds(parts.package, "clashing")
    with pytest.raises(PluginError, match="first: found twice"):
        clashing["first"]


def test_a_package_that_fails_on_import_is_named_with_its_error(
    parts: Kinds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_package_of_a_test.py").write_text("{}['setting']\n")
    entry = EntryPoint("broken", "broken_package_of_a_test:Mine", "broken")
    monkeypatch.setattr(module, "entry_points", lambda group: [entry])
    with pytest.raises(PluginError, match=r"Mine: cannot be loaded \(KeyError: 'setting'\)"):
        Kinds(parts.package, "broken")["broken"]
