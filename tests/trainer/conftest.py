"""Runs of a very small policy, made once for the tests of a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.trainer.small_runs import TINY
from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.trainer.train import train

EVEN = """
def even(completion, sample):
    return float(len(completion) % 2 == 0)
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Config]:
    folder = tmp_path_factory.mktemp("config")
    (folder / "tiny.yaml").write_text(TINY)
    (folder / "mine.py").write_text(EVEN)

    def make(*overrides: str) -> Config:
        rewards = f"task.rewards={{{folder / 'mine.py'}:even: 1.0}}"
        return load_config(str(folder / "tiny.yaml"), (rewards, *overrides))

    return make


@pytest.fixture(scope="module")
def whole(
    config: Callable[..., Config], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """The folder of an uninterrupted run with the overrides, made once; tests only read it."""

    @cache
    def run(*overrides: str) -> Path:
        return train(config(*overrides), out=tmp_path_factory.mktemp("whole") / "run").folder

    return run
