"""Every system of the catalogue that runs trains; the same when it stops after its first step and continues, and on two ranks.

Rows that train with equal plans are trained once. A run from end to end, with data and sampling, is tests/trainer's subject.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.systems.training import Plan, Trainer, plans_of
from vlrft.config.systems import System, all_systems
from vlrft.distributed.ranks import Ranks
from vlrft.schema.file_hashes import read_manifest
from vlrft.testing.process_ranks import run_ranks
from vlrft.trainer.checkpoint_files import load_state

Metrics = dict[int, Mapping[str, float]]  # of each step
RUNNING = [s for s in all_systems().values() if s.runs]
OF_THE_MACHINE = ("time/", "speed/", "memory/")
STATE, METRIC = (
    1e-7,
    1e-5,
)  # tolerances: the model's norms round to float32, metrics are summed in it


class Plans:
    """The different plans of all systems, and their runs, each done once."""

    def __init__(self, folder: Path) -> None:
        self.of_system = {s.id: plans_of(s) for s in RUNNING}
        self.different: list[Plan] = []
        for plan in (plan for plans in self.of_system.values() for plan in plans):
            if plan not in self.different:
                self.different.append(plan)
        self.trainer = Trainer(folder)
        self.metrics: dict[int, Metrics] = {}

    def numbers(self, system: System) -> list[int]:
        """Of the system's plans among the different ones."""
        return [self.different.index(plan) for plan in self.of_system[system.id]]

    def whole(self, number: int) -> tuple[Path, Metrics]:
        """The checkpoints and the metrics of a whole run."""
        name = f"whole_{number}"
        if number not in self.metrics:
            self.metrics[number] = self.trainer.train(self.different[number], name)
        return self.trainer.folder / name, self.metrics[number]

    def resumed(self, number: int) -> Path:
        """The checkpoints of a run that continues the whole run's first step."""
        out, first = self.trainer.folder / f"resumed_{number}", self.whole(number)[0] / "step_1"
        if not out.exists():
            self.trainer.train(self.different[number], out.name, first)
        return out


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Plans:
    return Plans(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def pair(plans: Plans, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """The folder of the runs of two ranks, and what each rank has in the end."""
    folder = tmp_path_factory.mktemp("ranks")
    return folder, run_ranks(partial(train_all, plans.different), folder)


def train_all(plans: Sequence[Plan], ranks: Ranks, folder: Path) -> list[Any]:
    """The metrics and the weights after each run, on one of the ranks."""
    trainer, results = Trainer(folder, ranks, save_every=0), []
    for number, plan in enumerate(plans):
        metrics = trainer.train(plan, f"whole_{number}")
        weights = trainer.policy.trained_weights().values()
        results.append((metrics, torch.cat([w.flatten() for w in weights])))
    return results


@pytest.mark.parametrize("system", RUNNING, ids=lambda s: s.id)
def test_a_system_trains_and_continues_from_a_checkpoint_as_if_it_had_not_stopped(
    system: System, plans: Plans
) -> None:
    for number in plans.numbers(system):
        whole, metrics = plans.whole(number)
        assert all(math.isfinite(v) for step in metrics.values() for v in step.values())
        weights = load_state(whole / "step_2").under("weights")
        assert any(not torch.equal(w, plans.trainer.start[name]) for name, w in weights.items())
        hashes = read_manifest(whole / "step_2")
        assert hashes
        assert read_manifest(plans.resumed(number) / "step_2") == hashes


@pytest.mark.parametrize("system", RUNNING, ids=lambda s: s.id)
def test_two_ranks_train_a_system_as_one_does(
    system: System, plans: Plans, pair: tuple[Path, list[Any]]
) -> None:
    folder, results = pair
    for number in plans.numbers(system):
        one, metrics = plans.whole(number)
        state, state_of_two = (load_state(out / "step_2") for out in (one, folder / one.name))
        assert_alike(state_of_two.values, state.values, STATE)
        assert state_of_two.tensors.keys() == state.tensors.keys()
        for name, tensor in state.tensors.items():
            torch.testing.assert_close(state_of_two.tensors[name], tensor, atol=STATE, rtol=STATE)
        (of_first, weights), (_, others) = (result[number] for result in results)
        assert torch.equal(weights, others)
        assert_alike(_comparable(of_first), _comparable(metrics), METRIC)


def _comparable(metrics: Metrics) -> list[dict[str, float]]:
    return [
        {k: v for k, v in step.items() if not k.startswith(OF_THE_MACHINE)}
        for step in metrics.values()
    ]


def assert_alike(value: Any, expected: Any, tolerance: float) -> None:
    """Equal trees of plain values; numbers up to rounding."""
    if isinstance(expected, Mapping):
        assert value.keys() == expected.keys()
        for key, inner in expected.items():
            assert_alike(value[key], inner, tolerance)
    elif isinstance(expected, list):
        for one, inner in zip(value, expected, strict=True):
            assert_alike(one, inner, tolerance)
    elif isinstance(expected, float):
        assert value == pytest.approx(expected, rel=tolerance, abs=tolerance)
    else:
        assert value == expected
