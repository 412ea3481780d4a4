"""How a step's requests are split into batches, on lengths alone."""

from __future__ import annotations

from vlrft.memory.admission import batch_requests
from vlrft.memory.shapes import PromptSize
from vlrft.memory.workload import (
    RolloutWork,
    request_batches,
)


def test_the_plan_samples_in_the_batches_of_an_engine() -> None:
    lengths = (7, 30, 12)
    work = RolloutWork(
        prompts=tuple(PromptSize(tokens=n) for n in lengths), answers=4, tokens=9, max_rows=6
    )
    batches = batch_requests(lengths, (4, 4, 4), steps=9, max_rows=6, max_cache_tokens=2**19)
    planned = [[(p.tokens, rows) for p, rows in batch.parts] for batch in request_batches(work)]
    assert planned == [[(lengths[i], rows) for i, rows in batch] for batch in batches]
    assert planned == [[(30, 4)], [(12, 4)], [(7, 4)]]
