"""All kinds of cases that this machine can run, by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from random import Random

from benchmarks.campaign.answers import ANSWERS
from benchmarks.campaign.case import Kind, Plan
from benchmarks.campaign.damage import DAMAGE
from benchmarks.campaign.disks import DISKS
from benchmarks.campaign.environments import ENVIRONMENTS
from benchmarks.campaign.folders import FOLDERS
from benchmarks.campaign.found import FOUND
from benchmarks.campaign.guided import GUIDED
from benchmarks.campaign.kills import KILLS
from benchmarks.campaign.models import MODELS
from benchmarks.campaign.parsers import PARSING
from benchmarks.campaign.ranks import RANKS
from benchmarks.campaign.rewards import REWARDS
from benchmarks.campaign.rows import ROWS_OF_DATA
from benchmarks.campaign.settings import SETTINGS
from benchmarks.campaign.writers import WRITERS

ALL = (
    *(
        ANSWERS,
        DAMAGE,
        DISKS,
        ENVIRONMENTS,
        FOLDERS,
        GUIDED,
        KILLS,
        MODELS,
        PARSING,
        RANKS,
        REWARDS,
    ),
    *(ROWS_OF_DATA, SETTINGS, WRITERS),
)
KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in ALL if all(find_spec(module) for module in kind.needs)
}


def plan_of(kind: Kind, seed: int) -> Plan:
    """The plan of a seed, which two machines draw alike; of a negative one the case of that number that found a fault."""
    if seed < 0:
        return FOUND[kind.name][-seed - 1][1]
    return kind.draw(Random(f"{kind.name} {seed}"))


def first_seed(name: str) -> int:
    """The first seed of a campaign: that of the last case that found a fault, 0 where there is none."""
    return -len(FOUND.get(name, ()))
