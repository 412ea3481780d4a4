"""Dependencies have bounds, the lock has a hash for each package of the tested set, and the licences of all are listed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

tomllib = pytest.importorskip("tomllib", reason="in the standard library from Python 3.11 on")
ROOT = Path(__file__).parent.parent
NOT_IN_THE_LOCK = {
    "torch",  # builds differ by accelerator and by index
    "torchvision",
    "dashscope",  # only its tokenizer's file is used, without its dependencies
}
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
REQUIREMENTS = [
    *PROJECT["dependencies"],
    *(need for extra, needs in EXTRAS.items() if extra != "all" for need in needs),
]


def read_constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(p.name): str(p.specifier).removeprefix("==") for p in pins}


def read_lock() -> dict[str, tuple[str, int]]:
    """Name -> version and how many hashes it has."""
    text = (ROOT / ".ci" / "requirements.lock").read_text("utf-8")
    blocks = re.split(r"\n(?=[^\s#])", text)[1:]
    locked: dict[str, tuple[str, int]] = {}
    for block in blocks:
        name, version = block.split(" ", 1)[0].split("==")
        locked[canonicalize_name(name)] = (
            version,
            len(re.findall(r"--hash=sha256:[0-9a-f]{64}", block)),
        )
    return locked


@pytest.mark.parametrize("text", REQUIREMENTS)
def test_every_dependency_has_a_lower_and_an_upper_bound_that_admit_the_tested_version(
    text: str,
) -> None:
    need = Requirement(text)
    operators = {specifier.operator for specifier in need.specifier}
    assert operators in ({">=", "<"}, {"=="})
    pin = read_constraints().get(canonicalize_name(need.name))
    assert pin is None or need.specifier.contains(pin)


def test_the_lock_has_every_pin_of_the_tested_set_with_hashes_and_nothing_else() -> None:
    constraints, locked = read_constraints(), read_lock()
    assert {name: version for name, (version, _) in locked.items()} == {
        name: version for name, version in constraints.items() if name not in NOT_IN_THE_LOCK
    }
    assert min(hashes for _, hashes in locked.values()) >= 1


def test_the_lock_names_no_index_and_no_file_of_a_machine() -> None:
    lines = (ROOT / ".ci" / "requirements.lock").read_text("utf-8").splitlines()
    assert not [line for line in lines if re.search(r"://|^-|file:", line)]


def test_the_licence_page_lists_what_is_locked() -> None:
    page = (ROOT / "docs" / "reference" / "licences.md").read_text("utf-8")
    rows = re.findall(r"^\| ([\w.-]+) \| (\d[\w.]*) \| ([^|]+) \|", page, re.MULTILINE)
    assert {canonicalize_name(name): version for name, version, _ in rows} == {
        name: version for name, (version, _) in read_lock().items()
    }
    assert all(licence.strip() not in ("", "not stated") for _, _, licence in rows)
