from __future__ import annotations

import os

import pytest

from vlrft.cli.cuda_allocator import ALLOCATOR, NAMES, choose_allocator
from vlrft.cli.main import main


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, "")  # restored at the end
        monkeypatch.delenv(name)


def test_every_command_lets_segments_of_gpu_memory_grow() -> None:
    assert main(["list", "engines"]) == 0
    assert os.environ[ALLOCATOR] == "expandable_segments:True"


@pytest.mark.parametrize("name", NAMES)
def test_the_users_choice_of_an_allocator_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "max_split_size_mb:64")
    choose_allocator()
    assert {n: os.environ[n] for n in NAMES if n in os.environ} == {name: "max_split_size_mb:64"}
