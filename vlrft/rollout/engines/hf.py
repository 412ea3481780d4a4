"""Sampling with the policy's own module: a prompt is prefilled once for all its completions, an image encoded once.

Rows are completions. All randomness is drawn before the first step; the loop over steps works on whole batches, and
rows that have ended leave it, so that short answers are cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vlrft.config import RolloutConfig, strict
from vlrft.memory.limits import KEEP_SHARE
from vlrft.memory.plan import Moments
from vlrft.memory.sampling_phase import shared_prefix_memory
from vlrft.memory.shapes import ModelShape
from vlrft.memory.workload import RolloutWork
from vlrft.policy.backbone import Backbone
from vlrft.policy.policy import Policy
from vlrft.policy.rank_sync import filler_prompt
from vlrft.rollout.engines.batching import split_requests
from vlrft.rollout.engines.sampling import choose, uniforms
from vlrft.rollout.engines.shared_prefix import OwnTokens, Prefix, decode
from vlrft.rollout.engines.stop_strings import StopStrings, cut
from vlrft.rollout.engines.types import Request, Sampling
from vlrft.schema import DataError, Piece, Prompt
from vlrft.tracing.phases import phase


@strict
class Hf:
    """Samples with the policy's own transformers module. It has no settings."""

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

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], step: int) -> None:
        """Reads nothing: the module is shared."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[tuple[Piece, ...]]:
        """See `RolloutEngine.generate`. The module's train or eval state is left as it was."""
        limits = sampling.limits
        for request in requests:
            self._check_length(request, limits.max_prompt_tokens)
        pieces: list[list[Piece]] = [[] for _ in requests]
        with self._sampling():
            for batch in split_requests(requests, steps=sampling.max_tokens, limits=limits):
                sampled = iter(self._sample([request for _, request in batch], sampling))
                for index, request in batch:
                    pieces[index] += [next(sampled) for _ in request.seeds]
        return [tuple(completions) for completions in pieces]

    def finish(self) -> None:
        """See `RolloutEngine.finish`."""
        with self._sampling():
            self.policy.rank_sync.finish(self._run_filler)

    @contextmanager
    def _sampling(self) -> Iterator[None]:
        with torch.no_grad(), evaluating(self.policy.model), self.policy.in_use():
            yield

    def _run_filler(self, with_images: bool) -> None:
        """What other ranks wait for: the modules' calls alone."""
        prompt = filler_prompt(self.policy.chat, with_images)
        begin(self.policy, [Request(id="", prompt=prompt, seeds=(0,))], steps=1)

    def _check_length(self, request: Request, limit: int | None) -> None:
        length = len(request.prompt.ids)
        if limit is not None and length > limit:
            places = request.prompt.ids.count(self.policy.backbone.image_token_id)
            raise DataError(
                f"{request.id}: the prompt has {length} tokens ({places} of images), more than "
                f"rollout.max_prompt_tokens={limit}; raise it, or lower policy.max_pixels"
            )

    def _sample(self, requests: Sequence[Request], sampling: Sampling) -> list[Piece]:
        """A piece a seed, requests in order."""
        policy = self.policy
        device = policy.device
        seeds = [seed for request in requests for seed in request.seeds]
        steps = sampling.max_tokens
        drawn = uniforms(seeds, steps if sampling.temperature else 1).to(device)
        ends = torch.zeros_like(policy.banned)
        ends[[i for i in policy.chat.end_ids if i < len(ends)]] = True
        stops = StopStrings(sampling.stop, policy.chat, len(ends)) if sampling.stop else None

        with_images = any(request.prompt.images for request in requests)
        first = partial(begin, policy, requests, steps)
        rows, logits = policy.rank_sync.run(
            first, with_images=with_images, run_filler=self._run_filler
        )
        tokens = torch.zeros(len(seeds), steps, dtype=torch.long, device=device)
        logprobs = torch.zeros(len(seeds), steps, dtype=torch.float64, device=device)
        lengths = torch.full((len(seeds),), steps, device=device)
        ended = torch.zeros(len(seeds), dtype=torch.bool, device=device)
        live = torch.arange(len(seeds), device=device)  # the rows still in the batch, ended or not
        for t in range(steps):
            now, logprob = choose(
                logits,
                drawn[live, t if sampling.temperature else 0],
                policy.banned,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
            )
            tokens[live, t], logprobs[live, t] = now, logprob.double()
            fresh = ends[now]
            if stops is not None:
                fresh |= stops.reached(tokens[live, : t + 1], ~ended[live])
            fresh &= ~ended[live]
            lengths[live[fresh]] = t + 1
            ended[live[fresh]] = True
            going = ~ended[live]
            left = int(going.sum())
            if left == 0 or t == steps - 1:
                break
            if left < KEEP_SHARE * len(live):
                keep = going.nonzero()[:, 0]
                live, now, rows = live[keep], now[keep], rows.take(keep)
            further = partial(go_on, policy.backbone, rows, now, t)
            logits = policy.rank_sync.run(further, with_images=False, run_filler=self._run_filler)
        return self._pieces(tokens, logprobs, lengths, ended, sampling.stop)

    def _pieces(
        self,
        tokens: Tensor,
        logprobs: Tensor,
        lengths: Tensor,
        ended: Tensor,
        stop: tuple[str, ...],
    ) -> list[Piece]:
        ends = lengths.tolist()
        ids = [tuple(row[:end]) for row, end in zip(tokens.tolist(), ends, strict=True)]
        texts = self.policy.chat.decode_all(ids)
        found = zip(ids, texts, logprobs.tolist(), ended.tolist(), strict=True)
        return [
            Piece(
                ids=own,
                text=cut(text, stop),
                logprobs=tuple(row[: len(own)]),
                finish="stop" if has_ended else "length",
            )
            for own, text, row, has_ended in found
        ]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Completions in the making. Axes: N rows, A rotary axes."""

    next: Int[Tensor, "A N"]  # position of the first token behind the prompt
    prefix: Prefix
    own: OwnTokens

    @phase("decode")
    def take(self, index: Int[Tensor, " M"]) -> Rows:
        """The rows of an ascending `index` alone."""
        self.own.take(index)
        return replace(self, next=self.next[:, index], prefix=self.prefix.take(index))


def begin(
    policy: Policy, requests: Sequence[Request], steps: int
) -> tuple[Rows, Float[Tensor, "N V"]]:
    """A row a seed, with room for `steps` tokens, and the logits of its first one."""
    rows, states = prefill(policy.backbone, requests, pad_id=policy.chat.pad_id, steps=steps)
    return rows, head(policy.backbone, states)


def go_on(
    backbone: Backbone, rows: Rows, tokens: Int[Tensor, " N"], step: int
) -> Float[Tensor, "N V"]:
    """The logits behind `tokens`, the `step`-th of the rows' completions (from 0), which the rows keep."""
    with phase("decode"):
        embeds = backbone.decoder.get_input_embeddings()(tokens[:, None])
        positions = rows.next[..., None] + step
        states = decode(backbone, embeds, positions, rows.own, rows.prefix)
    return head(backbone, states[:, 0])


@phase("head")
def head(backbone: Backbone, states: Float[Tensor, "N H"]) -> Float[Tensor, "N V"]:
    logits: Tensor = backbone.head(states)
    return logits


@phase("prefill")
def prefill(
    backbone: Backbone, requests: Sequence[Request], *, pad_id: int, steps: int
) -> tuple[Rows, Float[Tensor, "N H"]]:
    """The prompts run once each, padded on the left; a row a seed, with room for `steps` tokens, and the states behind
    the prompts."""
    from transformers import DynamicCache

    prompts: list[Prompt] = [request.prompt for request in requests]
    longest = max(len(prompt.ids) for prompt in prompts)
    ids = torch.full((len(prompts), longest), pad_id)
    real = torch.zeros(len(prompts), longest, dtype=torch.bool)
    positions = torch.zeros(backbone.axes, len(prompts), longest + 1, dtype=torch.long)
    for b, request in enumerate(requests):
        start = longest - len(request.prompt.ids)
        ids[b, start:] = torch.tensor(request.prompt.ids)
        real[b, start:] = True
        positions[:, b, start:] = backbone.positions(request.prompt, 1, request.id)
    device = backbone.device
    ids, real, positions = ids.to(device), real.to(device), positions.to(device)
    own = torch.eye(
        longest, dtype=torch.bool, device=device
    )  # padding attends to itself: no row of the mask is empty
    allowed = torch.ones_like(own).tril() & real[:, None] | own
    cache = DynamicCache(config=backbone.decoder.config)
    inputs = backbone.embed(ids, backbone.collect_images(prompts))
    states = backbone.hidden_states(inputs, positions[..., :-1], allowed, cache)
    times = torch.tensor([len(request.seeds) for request in requests], device=device)
    prompt = torch.arange(len(requests), device=device).repeat_interleave(times)
    rows = Rows(
        next=positions[:, prompt, -1],
        prefix=Prefix.of(cache, real, times),
        own=OwnTokens(len(cache.layers), steps),
    )
    return rows, states[prompt, -1]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """No dropout, and no activation checkpointing, which would drop the cache. Restores each module's own state."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
