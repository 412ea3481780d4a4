"""How the processes of a run come together and part: ranks that were started side by side, each with its watchdog."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist

from vlrft.config import Config
from vlrft.distributed.device import pick_device
from vlrft.distributed.ranks import Ranks, join_ranks
from vlrft.distributed.watchdog import Watchdog
from vlrft.schema import VlrftError

GRACE = 10.0  # seconds in which whoever started the ranks ends those that are left


@contextmanager
def rank_session(config: Config) -> Iterator[Ranks]:
    """The ranks of this run; alone where nothing started several. When one is lost the others leave, too."""
    limits = config.ranks
    ranks = join_ranks(pick_device(config.device), wait=2 * limits.step_timeout)
    if ranks.size == 1:
        yield ranks
        return
    watchdog = Watchdog(ranks, _store(), stuck=limits.step_timeout, silent=limits.heartbeat_timeout)
    with watchdog.watching():
        try:
            yield ranks
        except Exception as e:
            if _lost(
                e
            ):  # the one that is gone is named by whoever started the ranks, or by the watchdog
                time.sleep(GRACE)
            raise
    dist.destroy_process_group()


def _store() -> Any:
    """What the processes met at, without the prefixes that torch puts before keys: the launcher reads it, too."""
    store: Any = dist.distributed_c10d._get_default_store()
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return store


def _lost(error: Exception) -> bool:
    """Whether an error only says that another rank is not there any more."""
    if isinstance(error, VlrftError):
        return False
    return isinstance(error, dist.DistError) or "gloo" in str(error).lower()
