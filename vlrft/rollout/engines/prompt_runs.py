"""Prompts of requests that enter, run from the end of a kept context where one begins the prompt, else whole; and the contexts that
are kept for the next `generate`, in the room that sampled rows leave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from vlrft.memory.admission import CacheLimits, CacheUse
from vlrft.policy.backbone import Backbone
from vlrft.policy.policy import Policy
from vlrft.policy.rank_sync import RunFiller
from vlrft.rollout.engines.continued_prefill import continue_prompts
from vlrft.rollout.engines.decoding_rows import DecodingRows, compute_logits
from vlrft.rollout.engines.kept_contexts import EndedRow, KeptContexts
from vlrft.rollout.engines.prefill import Prefilled, prefill
from vlrft.rollout.engines.sampled_rows import SampledRow
from vlrft.rollout.engines.types import Request
from vlrft.rollout.engines.waiting import Admitted


class PromptRuns:
    """The prompts of one `generate`. Axes: B prompts, V vocabulary."""

    def __init__(
        self,
        policy: Policy,
        requests: Sequence[Request],
        past: KeptContexts,
        limits: CacheLimits,
        fill: RunFiller,
    ) -> None:
        """`past`: contexts of the `generate` before; they are cleared. `fill`: see `RankSync.run`."""
        self.kept = KeptContexts()
        self._policy = policy
        self._requests = requests
        self._limits = limits
        self._fill = fill
        self._past = past
        self._contexts = [past.find(request) for request in requests]
        if not any(self._contexts):
            past.clear()

    def run(
        self, admitted: Sequence[Admitted], use: CacheUse, *, last: bool
    ) -> tuple[list[Admitted], Prefilled, Float[Tensor, "B V"]]:
        """The admitted in another order, their prompts and the logits after these. `use`: of the cache once they are in it.
        `last`: no more will enter. What is kept gives way where it and the rows exceed the limit."""
        spare = self._limits.spare_tokens(use)
        if self.kept.tokens > spare:
            self.kept.clear()
        drop = last or self._past.tokens + self.kept.tokens > spare
        pairs = [(part, self._contexts[part.index]) for part in admitted]
        continued = [(part, context) for part, context in pairs if context is not None]
        whole = [part for part, context in pairs if context is None]
        results: list[tuple[Prefilled, Tensor]] = []
        if continued:
            requests = [part.request for part, _ in continued]
            contexts = [context for _, context in continued]
            counts = [
                (len(r.prompt.images), len(c.images))
                for r, c in zip(requests, contexts, strict=True)
            ]
            run = partial(
                continue_prompts, requests=requests, contexts=contexts, kept=self._past, drop=drop
            )
            results.append(
                self._run(run, with_images=any(more > before for more, before in counts))
            )
        if drop:
            self._past.clear()
            self._contexts = [None] * len(self._contexts)
        if whole:
            requests = [part.request for part in whole]
            run = partial(prefill, requests=requests, pad_id=self._policy.chat.pad_id)
            results.append(self._run(run, with_images=any(r.prompt.images for r in requests)))
        prefilled, logits = results[0]
        for more, more_logits in results[1:]:
            prefilled, logits = prefilled.append(more), torch.cat([logits, more_logits])
        return [part for part, _ in continued] + whole, prefilled, logits

    def _run(
        self, run: Callable[[Backbone], Prefilled], *, with_images: bool
    ) -> tuple[Prefilled, Float[Tensor, "B V"]]:
        backbone = self._policy.backbone

        def work() -> tuple[Prefilled, Tensor]:
            prefilled = run(backbone)
            return prefilled, compute_logits(backbone, prefilled.states)

        return self._policy.rank_sync.run(work, with_images=with_images, run_filler=self._fill)

    def keep(
        self, rows: Sequence[SampledRow], leaving: Sequence[int], cache: DecodingRows, use: CacheUse
    ) -> None:
        """Keeps the contexts of the rows that leave, where their requests grow. `use`: of the cache with these rows in it;
        none: all leave, and the cache is not used again. States of recurrent layers cannot be cut at the end of a row, so that
        policies with such layers keep nothing."""
        if self._policy.backbone.recurrent_layers:
            return
        ended = [
            EndedRow(
                row=k,
                number=rows[k].request,
                request=self._requests[rows[k].request],
                ids=tuple(rows[k].ids),
            )
            for k in leaving
            if self._requests[rows[k].request].grows
        ]
        room = self._limits.spare_tokens(use) - self.kept.tokens - self._past.tokens
        self.kept.add(ended, cache, room, drop=not use.rows)
