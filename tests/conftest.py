"""Fixtures of the whole suite."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.testing.small_policies import CORPUS, Family, tiny_config
from vlrft.vision.processor import prepare_torchvision

prepare_torchvision()  # before a test imports peft, TRL or transformers' models by itself

Tiny = Callable[[Family], Policy]


@pytest.fixture(scope="session")
def tiny() -> Tiny:
    """A tiny policy of a family, built once a session; tests must not change its weights."""

    @cache
    def make(family: Family) -> Policy:
        return load_policy(tiny_config(family), corpus=CORPUS, seed=0)

    return make
