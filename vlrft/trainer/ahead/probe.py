"""Fresh completions to compare with the trainer: those of a step that was sampled ahead are of earlier weights."""

from __future__ import annotations

from dataclasses import replace

import torch

from vlrft.objectives import make_loss_batch
from vlrft.rollout.engines import Request, RolloutEngine, Sampling
from vlrft.rollout.seeds import seed_from
from vlrft.trainer.batch import Batch

PROMPTS = 4  # of a step, the most that are sampled again
TOKENS = 64  # the most of a completion


def resample(batch: Batch, engine: RolloutEngine, sampling: Sampling, *, step: int) -> Batch:
    """A batch of one completion to each of the first prompts of `batch`, sampled with the engine's present weights and up to
    `TOKENS` tokens. It is compared and not trained on: its advantages are 0."""
    sampling = replace(sampling, max_tokens=min(sampling.max_tokens, TOKENS))
    first = {prompt.key: k for k, prompt in reversed(list(enumerate(batch.prompts)))}
    rows = sorted(first.values())[:PROMPTS]
    requests = [
        Request(
            id=batch.samples[b],
            prompt=batch.prompts[b],
            seeds=(seed_from("probe", step, batch.samples[b]),),
        )
        for b in rows
    ]
    pieces = [piece for (piece,) in engine.generate(requests, sampling)]
    width = max((len(piece.ids) for piece in pieces), default=0)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    logprobs = torch.zeros(len(rows), width, dtype=torch.float64)
    for b, piece in enumerate(pieces):
        mask[b, : len(piece.ids)] = True
        logprobs[b, : len(piece.ids)] = torch.tensor(piece.logprobs, dtype=torch.float64)
    index = torch.arange(len(rows))
    loss = make_loss_batch(
        mask=mask,
        advantages=torch.zeros_like(logprobs),
        group=index,
        rollout=index,
        valid=(False,) * len(rows),
        max_tokens=sampling.max_tokens,
        sampled_logprobs=logprobs,
    )
    return Batch(
        prompts=tuple(batch.prompts[b] for b in rows),
        ids=tuple(piece.ids for piece in pieces),
        images=((),) * len(rows),
        samples=tuple(batch.samples[b] for b in rows),
        loss=loss,
        temperature=batch.temperature,
    )
