"""docs/howto/many_ranks.md shows engines, defaults and messages as they are."""

from __future__ import annotations

import re

import yaml

from tests.docs.pages import blocks, read_page
from vlrft.config.run import RanksConfig
from vlrft.distributed.watchdog import HOW_TO_RESUME
from vlrft.engine import find_engine

PAGE = read_page("docs/howto/many_ranks.md")


def test_every_engine_of_the_table_exists() -> None:
    table = PAGE.partition("## Choose an engine")[2].partition("\n\n`fsdp` shards")[0]
    choices = [yaml.safe_load(c) for c in re.findall(r"^\| `(.*?)`", table, re.M) if c != "engine:"]
    assert len(choices) == 8
    for choice in choices:
        assert find_engine(choice)


def test_the_time_limits_have_the_named_defaults() -> None:
    for name, seconds in re.findall(r"`ranks\.(\w+)` seconds \((\d+):", PAGE):
        assert getattr(RanksConfig(), name) == float(seconds)


def test_messages_of_a_lost_rank_end_as_printed() -> None:
    lines = [line for block in blocks(PAGE, "text") for line in block.splitlines()]
    verdicts = [line for line in lines if line.startswith("vlrft: rank 1")]
    assert len(verdicts) == 2
    assert all(line.endswith(HOW_TO_RESUME) for line in verdicts)
