"""The arithmetic cuts a step's work as `Batch.parts` and `rollout.portions` cut it."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
import torch

from vlrft.memory import phases, transient, update_phase, workload
from vlrft.memory.shapes import PromptSize
from vlrft.objectives import make_loss_batch
from vlrft.policy import backbone, linear_logprobs, logprobs
from vlrft.policy.chat import PIXEL_CACHE_BYTES
from vlrft.rollout.engines import Request, batching
from vlrft.schema import Prompt
from vlrft.trainer.batch import Batch


def test_bounds_are_those_of_the_code_that_they_speak_of() -> None:
    assert transient.CHUNK_LOGITS == linear_logprobs.CHUNK_LOGITS
    assert transient.GPU_FACTOR == linear_logprobs.GPU_FACTOR
    assert update_phase.REPLICATED_LOGITS == logprobs.REPLICATED_LOGITS
    assert phases.FEATURE_BYTES == backbone.FEATURE_BYTES
    assert phases.PIXEL_CACHE_BYTES == PIXEL_CACHE_BYTES
    assert workload.PREFILL_TOKENS == batching.PREFILL_TOKENS


@pytest.mark.parametrize(
    ("group", "tokens", "budget"), [*product((1, 5, 8), (3, 20), (40, 100, 900))]
)
def test_micro_batches_are_those_of_a_batch(group: int, tokens: int, budget: int) -> None:
    lengths = [Random(7 * k).randint(1, 50) for k in range(6)]
    prompts = tuple(Prompt(ids=(k,) * n) for k, n in enumerate(lengths) for _ in range(group))
    rows = len(prompts)
    loss = make_loss_batch(
        mask=torch.ones(rows, tokens, dtype=torch.bool),
        advantages=torch.ones(rows, tokens, dtype=torch.float64),
        group=torch.arange(rows) // group,
        rollout=torch.arange(rows),
        valid=(True,) * len(lengths),
        max_tokens=tokens,
    )
    batch = Batch(
        prompts=prompts,
        ids=((1,) * tokens,) * rows,
        images=((),) * rows,
        samples=("",) * rows,
        loss=loss,
        temperature=1,
    )
    real = [
        [(len(i.prompt.ids), len(i.rows)) for i in part.items()]
        for part in batch.micro_batches(budget)
    ]
    sizes = [PromptSize(tokens=n) for n in lengths]
    planned = [
        [(item.prompt.tokens, len(item.rows)) for item in micro.items]
        for micro in workload.micro_batches(sizes, group, tokens, budget)
    ]
    # A part may hold two cuts of a prompt, which `items` shows as one.
    assert [sum(n for _, n in part) for part in planned] == [sum(n for _, n in p) for p in real]


@pytest.mark.parametrize(("rows", "keys"), [*product((3, 16, 512), (100, 500, 2**19))])
def test_portions_are_those_of_the_engine(rows: int, keys: int) -> None:
    lengths = [Random(k).randint(1, 60) for k in range(9)]
    requests = [Request(id="", prompt=Prompt(ids=(1,) * n), seeds=tuple(range(7))) for n in lengths]
    real = batching.portions(requests, steps=12, max_rows=rows, max_cache_tokens=keys)
    asked = workload.RolloutWork(
        prompts=tuple(PromptSize(tokens=n) for n in lengths),
        answers=7,
        tokens=12,
        max_rows=rows,
        max_cache_tokens=keys,
    )
    planned = [[(p.tokens, n) for p, n in portion.parts] for portion in workload.portions(asked)]
    assert planned == [[(len(r.prompt.ids), len(r.seeds)) for _, r in part] for part in real]
