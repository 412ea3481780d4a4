"""The process group of a run: joined at its start, watched while it lasts, left at its end. One that the caller has joined before
is only used."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist

from vlrft.config import Config
from vlrft.distributed.device import find_device
from vlrft.distributed.ranks import Ranks, join_ranks
from vlrft.distributed.watchdog import HOW_TO_RESUME, Watchdog
from vlrft.schema import VlrftError
from vlrft.schema.errors import RanksError

GRACE = 10.0  # seconds for the launcher or the watchdog to report the lost rank and end this one


@contextmanager
def rank_session(config: Config) -> Iterator[Ranks]:
    """The ranks of this run; one rank where nothing started several. When a rank is lost the others exit too."""
    limits, joined_before = config.ranks, dist.is_initialized()
    ranks = join_ranks(find_device(config.device), timeout=2 * limits.step_timeout)
    if ranks.size == 1:
        yield ranks
        return
    watchdog = Watchdog(
        ranks,
        _store(),
        step_timeout=limits.step_timeout,
        heartbeat_timeout=limits.heartbeat_timeout,
    )
    with watchdog.watching():
        try:
            yield ranks
        except Exception as e:
            if not _is_lost_rank(e):
                raise
            time.sleep(GRACE)  # the launcher or the watchdog names the rank that is gone
            raise lost_rank(ranks) from e
    if not joined_before:
        dist.destroy_process_group()


def lost_rank(ranks: Ranks) -> RanksError:
    """The error of a rank whose connection to another one broke, where nobody else reports which: ranks that were not
    started by `vlrft launch`."""
    return RanksError(
        f"rank {ranks.rank} of {ranks.size}: the connection to another rank broke, so that rank has ended or was killed; its own "
        f"output says why; {HOW_TO_RESUME}"
    )


def _store() -> Any:
    """The process group's store, without torch's key prefixes: the launcher reads the same keys."""
    store: Any = dist.distributed_c10d._get_default_store()
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return store


def _is_lost_rank(error: Exception) -> bool:
    """Whether an error only says that another rank is gone."""
    if isinstance(error, VlrftError) or not isinstance(error, RuntimeError):
        return False
    return isinstance(error, dist.DistError) or "gloo" in str(error).lower()
