"""Sampling with the policy's own module: a prompt is prefilled once for all its completions, an image encoded once.

decoding         the loop: which completions are in the cache, and what happens to their tokens
waiting          completions that wait for room          prefill         prompts, each run once
prompt_runs      prompts whole, or from the end of a kept context
kept_contexts    contexts kept for the next `generate`   continued_rows  attention of new tokens to their contexts
decoding_rows    one token for each row                  sampled_rows    where completions end
shared_prefix    attention of rows to their prompt and to their own tokens
own_attention    calls of a decoder with such an attention
prompt_cache, completion_cache                           keys and values
sampling         logits -> tokens                        token_signals   numbers of a token's distribution
stop_strings     strings that end a completion
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import torch
from torch import Tensor, nn

from vlrft.config import RolloutConfig, strict
from vlrft.memory.plan import Moments
from vlrft.memory.sampling_phase import shared_prefix_memory
from vlrft.memory.shapes import ModelShape
from vlrft.memory.workload import RolloutWork
from vlrft.policy.policy import Policy
from vlrft.policy.rank_sync import filler_prompt
from vlrft.rollout.engines.decoding import Decoding
from vlrft.rollout.engines.decoding_rows import compute_logits
from vlrft.rollout.engines.kept_contexts import KeptContexts
from vlrft.rollout.engines.lean_attention import lean_attention
from vlrft.rollout.engines.prefill import prefill
from vlrft.rollout.engines.prompt_limits import check_prompt
from vlrft.rollout.engines.token_signals import SIGNALS
from vlrft.rollout.engines.types import Request, Sampling
from vlrft.schema import Piece


@strict
class Hf:
    """Samples with the policy's own transformers module. It has no settings."""

    signals: ClassVar[frozenset[str]] = frozenset(SIGNALS)

    def check(self, config: RolloutConfig) -> None:
        """Every setting is supported."""

    def build(self, policy: Policy) -> HfEngine:
        """See `RolloutEngineKind.build`."""
        return HfEngine(policy)

    def rollout_memory(self, model: ModelShape, work: RolloutWork) -> Moments:
        """See `RolloutMemoryModel.rollout_memory`."""
        return shared_prefix_memory(model, work)


KIND = Hf


class HfEngine:
    """Shares the policy's module, so its weights are always the current ones."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._kept = KeptContexts()  # of the last `generate`

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], step: int) -> None:
        """Drops the kept contexts, which are those of other weights. The module is shared."""
        self._kept = KeptContexts()

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[tuple[Piece, ...]]:
        """See `RolloutEngine.generate`. The module keeps its train or eval mode."""
        past, self._kept = self._kept, KeptContexts()
        for request in requests:
            check_prompt(request, sampling.limits)
        with self._sampling_mode():
            decoding = Decoding(self.policy, requests, sampling, self._run_filler, past)
            pieces = decoding.run()
        self._kept = decoding.kept
        return pieces

    def finish(self) -> None:
        """See `RolloutEngine.finish`. Drops the kept contexts."""
        self._kept = KeptContexts()
        with self._sampling_mode():
            self.policy.rank_sync.finish(self._run_filler)

    @contextmanager
    def _sampling_mode(self) -> Iterator[None]:
        policy = self.policy
        with (
            torch.no_grad(),
            eval_mode(policy.model),
            policy.in_use(),
            lean_attention(policy.backbone.decoder),
        ):
            yield

    def _run_filler(self, with_images: bool) -> None:
        """Calls the modules that the other ranks call, on a short prompt, and discards the result."""
        prompt = filler_prompt(self.policy.chat, with_images)
        request, backbone = Request(id="", prompt=prompt, seeds=(0,)), self.policy.backbone
        prefilled = prefill(backbone, [request], pad_id=self.policy.chat.pad_id)
        compute_logits(backbone, prefilled.states)


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Turns off dropout, and activation checkpointing, which would drop the KV cache. Restores each module's mode."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
