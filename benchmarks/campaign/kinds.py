"""All kinds of cases that this machine can run, by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from benchmarks.campaign.answers import ANSWERS
from benchmarks.campaign.case import Kind
from benchmarks.campaign.damage import DAMAGE
from benchmarks.campaign.disks import DISKS
from benchmarks.campaign.environments import ENVIRONMENTS
from benchmarks.campaign.guided import GUIDED
from benchmarks.campaign.kills import KILLS
from benchmarks.campaign.parsers import PARSING
from benchmarks.campaign.ranks import RANKS
from benchmarks.campaign.rewards import REWARDS
from benchmarks.campaign.rows import ROWS_OF_DATA
from benchmarks.campaign.settings import SETTINGS

ALL = (
    *(ANSWERS, DAMAGE, DISKS, ENVIRONMENTS, GUIDED, KILLS, PARSING, RANKS, REWARDS, ROWS_OF_DATA),
    SETTINGS,
)
KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in ALL if all(find_spec(module) for module in kind.needs)
}
