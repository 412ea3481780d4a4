"""The arguments of `vlrft doctor CONFIG` -> the plan of the run on a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.distributed.device import pick_device
from vlrft.memory.plan import FILL_LIMIT
from vlrft.trainer.memory_plan.device_memory import available_memory
from vlrft.trainer.memory_plan.planner import Planner, StagePlan
from vlrft.trainer.memory_plan.suggestions import peak_bytes

RUNS = Path("runs")  # unless --out says otherwise


@dataclass(frozen=True, kw_only=True)
class DevicePlan:
    """The plan of a run on a device. `memory`: bytes that a rank may use, `where` in words."""

    config: Config
    planner: Planner
    stages: Sequence[StagePlan]
    memory: int
    where: str
    folder: Path | None
    """Where runs are written, on the disk of this machine; None: the plan is for another one."""

    @property
    def fits(self) -> bool:
        return fits(self.stages, self.memory)


def plan_config(
    path: str, overrides: Sequence[str], memory: str | None, ranks: int | None
) -> DevicePlan:
    """The plan of one of the ranks. `memory`: of the device, such as 80GiB; None: that of this machine. `ranks`: None: as
    many as the config is meant for.

    Raises ConfigError for a config that does not load and for a model whose config is not available.
    """
    config = load_config(path, overrides)
    device = pick_device(config.device)
    ranks = ranks or config.ranks.count or 1
    size, where = available_memory(memory, device, ranks)
    planner = Planner(config, device, ranks)
    plans = planner.plans(config)
    return DevicePlan(
        config=config,
        planner=planner,
        stages=plans,
        memory=size,
        where=where,
        folder=RUNS if memory is None else None,
    )


def fits(plans: Sequence[StagePlan], memory: int) -> bool:
    """Whether the peak of all stages leaves a tenth of the memory free."""
    return peak_bytes(plans) <= FILL_LIMIT * memory
