"""Running prompts from where kept contexts end."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from vlrft.distributed.phases import phase
from vlrft.policy.backbone import Backbone
from vlrft.rollout.engines.continued_rows import ContinuedRows, run_continued
from vlrft.rollout.engines.kept_contexts import Context, KeptContexts
from vlrft.rollout.engines.prefill import Prefilled
from vlrft.rollout.engines.types import Request
from vlrft.schema import Prompt


@phase("prefill")
def continue_prompts(
    backbone: Backbone,
    *,
    requests: Sequence[Request],
    contexts: Sequence[Context],
    kept: KeptContexts,
    drop: bool,
) -> Prefilled:
    """As `prefill`, for prompts that begin with `contexts`. `drop`: `kept` is not read again."""
    news = [
        Prompt(ids=r.prompt.ids[len(c.ids) :], images=r.prompt.images[len(c.images) :])
        for r, c in zip(requests, contexts, strict=True)
    ]
    each = [backbone.positions(request.prompt, 1, request.id) for request in requests]
    positions = torch.cat(
        [one[:, -len(new.ids) - 1 : -1] for one, new in zip(each, news, strict=True)], 1
    )
    device = backbone.device
    ids = torch.tensor([[i for new in news for i in new.ids]])
    inputs = backbone.embed(ids.to(device), backbone.collect_images(news))
    rows = ContinuedRows(contexts, [len(new.ids) for new in news], kept, device, drop=drop)
    states = run_continued(backbone, inputs, positions[:, None].to(device), rows)
    return Prefilled(
        prompts=rows.prompts,
        next=torch.stack([one[:, -1] for one in each], 1).to(device),
        states=states[0, rows.ends],
    )
