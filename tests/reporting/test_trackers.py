"""Experiment trackers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.reporting.logs import log
from vlrft.reporting import trackers as trackers_module
from vlrft.schema.errors import TrackerError
from vlrft.testing.small_policies import group


def test_tensorboard_gets_the_metrics(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    run = log(tmp_path, trackers=["tensorboard"])
    run.step("gpg", 1, {"reward/mean": 0.5}, [group("a", [1.0])], [[0.0]])
    run.close()
    (events,) = (tmp_path / "tensorboard").iterdir()
    assert b"reward/mean" in events.read_bytes()


def test_a_tracker_that_is_not_installed_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(trackers_module, "import_module", missing)
    with pytest.raises(TrackerError, match=r"pip install 'vlrft\[wandb\]'"):
        log(tmp_path, trackers=["wandb"])


def test_hosted_trackers_are_called_through_one_interface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, ...]] = []

    class Fake:
        def init(self, **settings: str) -> None:
            calls.append(("init", settings["project"]))

        def log(self, metrics: dict[str, float], step: int) -> None:
            calls.append((metrics, step))

        def finish(self) -> None:
            calls.append(("finish",))

    monkeypatch.setattr(trackers_module, "import_module", lambda name: Fake())
    run = log(tmp_path, trackers=["trackio"])
    run.step("gpg", 4, {"lr": 1.0}, [group("a", [1.0])], [[0.0]])
    run.close()
    assert calls == [("init", "vlrft"), ({"lr": 1.0}, 4), ("finish",)]
