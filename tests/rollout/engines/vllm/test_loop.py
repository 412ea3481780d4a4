"""The loop that asks the servers ends with whatever still runs in it."""

from __future__ import annotations

import asyncio
from concurrent.futures import wait

from vlrft.rollout.engines.vllm.loop import LoopThread


def test_a_task_that_loses_a_cancellation_is_cancelled_again() -> None:
    """As in asyncio.wait_for before Python 3.12, where the result comes at the same moment."""

    async def lose_one() -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            await asyncio.sleep(1000)

    async def last() -> None:
        ended.append(len(asyncio.all_tasks()))

    ended: list[int] = []
    thread = LoopThread("test")
    work = thread.submit(lose_one())
    thread.run(asyncio.sleep(0))
    thread.close(last)
    assert wait([work], timeout=0).done
    assert work.cancelled()
    assert ended == [1]  # `last` itself
