"""The arguments of `vlrft doctor CONFIG` -> the plan of the run on a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.config.overrides import overrides_of, without_replaced
from vlrft.distributed.device import pick_device
from vlrft.engine import check_quantization
from vlrft.memory.plan import FILL_LIMIT
from vlrft.trainer.ahead.misfits import refuse_several_ranks
from vlrft.trainer.memory_plan.device_memory import available_memory
from vlrft.trainer.memory_plan.planner import Planner, StagePlan, peak_bytes
from vlrft.trainer.memory_plan.proposal import Proposal, propose
from vlrft.trainer.stage_settings import find_choices

RUNS = Path("runs")  # unless --out says otherwise


@dataclass(frozen=True, kw_only=True)
class DevicePlan:
    """The plan of a run on a device. `memory`: bytes that a rank may use, `where` in words; `path` and `overrides`: as the
    command names the config."""

    path: str
    overrides: Sequence[str]
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

    def propose(self) -> Proposal | None:
        """The proposal of a run that fits; its settings, in place of those of the command with the same paths, lead to its config."""
        proposal = propose(self.config, self.planner, self.memory)
        if proposal is None:
            return None
        loaded = load_config(self.path, [*self.kept(proposal), *proposal.settings])
        return replace(proposal, more=stage_settings(loaded, proposal.config))

    def kept(self, proposal: Proposal) -> list[str]:
        """The command's own settings that the proposal does not replace."""
        names = [stage.name for stage in self.config.stages]
        return without_replaced(self.overrides, proposal.settings, names)


def plan_config(
    path: str, overrides: Sequence[str], memory: str | None, ranks: int | None
) -> DevicePlan:
    """The plan of one of the ranks. `memory`: of the device, such as 80GiB; None: that of this machine. `ranks`: None: as
    many as the config is meant for.

    Raises ConfigError for a config that does not load, for a model whose config is not available, and for settings
    that a run would refuse.
    """
    config = load_config(path, [*overrides, *overrides_of({"ranks.count": ranks})])
    check_quantization(config.engine, config.policy)
    ranks = config.ranks.count or 1
    pairs = zip(config.stages, find_choices(config), strict=True)
    refuse_several_ranks([(str(s.name), s, algorithm) for s, (algorithm, _) in pairs], ranks)
    device = pick_device(config.device)
    size, where = available_memory(memory, device, ranks)
    planner = Planner(config, device, ranks)
    plans = planner.plans(config)
    return DevicePlan(
        path=path,
        overrides=overrides,
        config=config,
        planner=planner,
        stages=plans,
        memory=size,
        where=where,
        folder=RUNS if memory is None else None,
    )


def stage_settings(loaded: Config, meant: Config) -> tuple[str, ...]:
    """Settings of the stages that state such a limit themselves, and so do not take the run's."""
    limits = (
        ("update", "max_tokens_per_micro_batch"),
        ("rollout", "max_rows"),
        ("rollout", "max_cache_tokens"),
    )
    return tuple(
        f"stages.{k}.{section}.{key}={getattr(getattr(other, section), key)}"
        for k, (one, other) in enumerate(zip(loaded.stages, meant.stages, strict=True))
        for section, key in limits
        if getattr(getattr(one, section), key) != getattr(getattr(other, section), key)
    )


def fits(plans: Sequence[StagePlan], memory: int) -> bool:
    """Whether the peak of all stages leaves a tenth of the memory free."""
    return peak_bytes(plans) <= FILL_LIMIT * memory
