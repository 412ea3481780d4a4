"""Fixtures of the whole suite."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import jaxtyping
import pytest
import torch

from tests.leftovers import pytest_sessionfinish as pytest_sessionfinish
from vlrft.config import LoraConfig, PolicyConfig
from vlrft.distributed.interrupts import STOP_SIGNALS
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.testing.small_policies import CORPUS, Family, tiny_config
from vlrft.vision.processor import prepare_torchvision

TESTS = Path(__file__).parent
QUICK = TESTS / "grading"
# Tests of the packages whose shapes are checked. Others call the same functions unchecked, in two thirds of the time.
CHECKED = tuple(
    TESTS / name
    for name in (
        *("objectives", "advantages", "algorithms", "conformance", "policy", "rollout/engines"),
        *("engine", "test_shapes.py"),
    )
)

prepare_torchvision()  # before a test imports peft, TRL or transformers' models by itself

gc.disable()  # until the tests are collected: nothing of that is ever garbage


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of milliseconds come last, so that the workers of xdist end at the same time."""
    items.sort(key=lambda item: item.path.is_relative_to(QUICK))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    checked = any(item.path.is_relative_to(path) for path in CHECKED)
    jaxtyping.config.update("jaxtyping_disable", not checked)


def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: the collector need not walk through millions of objects again and again."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def no_fsync() -> Iterator[None]:
    """Nothing waits for the disk: what a process has written outlives it, and no test cuts the machine's power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def default_signals() -> Iterator[None]:
    """The signals that stop a run have their first effects, also where the tests run in the background or with nohup."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in STOP_SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


Tiny = Callable[[Family], Policy]


@pytest.fixture(scope="session")
def tiny() -> Tiny:
    """A tiny policy of a family, built once a session; tests must not change its weights."""

    @cache
    def make(family: Family) -> Policy:
        return load_policy(tiny_config(family), corpus=CORPUS, seed=0)

    return make


@pytest.fixture(scope="session")
def lora_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole model in a folder."""
    folder = tmp_path_factory.mktemp("base") / "model"
    load_policy(tiny_config("qwen2_vl"), corpus=CORPUS).save(folder)
    return folder


@pytest.fixture(scope="session")
def lora_policy(lora_base: Path) -> Policy:
    """The model with adapters that changed it little, in bfloat16."""
    config = PolicyConfig(model=str(lora_base), lora=LoraConfig(rank=2), dtype="bfloat16")
    policy = load_policy(config)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=1e-4, generator=torch.Generator().manual_seed(1))
    return policy


@pytest.fixture(scope="session")
def lora_checkpoint(lora_policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "step_1"
    lora_policy.save(folder)
    return folder
