"""Sampling with the policy's own module: a prompt is prefilled once for all its completions, an image encoded once.

A row is a completion. All random numbers are drawn before the first step. The loop over steps works on whole batches and
drops rows that have finished, so that short answers are cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
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
from vlrft.rollout.engines.sampling import draw_uniforms, sample_tokens
from vlrft.rollout.engines.shared_prefix import CompletionCache, PromptCache, decode
from vlrft.rollout.engines.stop_strings import StopStrings, cut_at_stop
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
        """Does nothing: the module is shared."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[tuple[Piece, ...]]:
        """See `RolloutEngine.generate`. The module keeps its train or eval mode."""
        limits = sampling.limits
        for request in requests:
            self._check_length(request, limits.max_prompt_tokens)
        pieces: list[list[Piece]] = [[] for _ in requests]
        with self._sampling_mode():
            for batch in split_requests(requests, steps=sampling.max_tokens, limits=limits):
                sampled = iter(self._sample([request for _, request in batch], sampling))
                for index, request in batch:
                    pieces[index] += [next(sampled) for _ in request.seeds]
        return [tuple(completions) for completions in pieces]

    def finish(self) -> None:
        """See `RolloutEngine.finish`."""
        with self._sampling_mode():
            self.policy.rank_sync.finish(self._run_filler)

    @contextmanager
    def _sampling_mode(self) -> Iterator[None]:
        with torch.no_grad(), eval_mode(self.policy.model), self.policy.in_use():
            yield

    def _run_filler(self, with_images: bool) -> None:
        """Calls the modules that the other ranks call, on a short prompt, and discards the result."""
        prompt = filler_prompt(self.policy.chat, with_images)
        start_rows(self.policy, [Request(id="", prompt=prompt, seeds=(0,))], steps=1)

    def _check_length(self, request: Request, limit: int | None) -> None:
        length = len(request.prompt.ids)
        if limit is not None and length > limit:
            image_tokens = request.prompt.ids.count(self.policy.backbone.image_token_id)
            raise DataError(
                f"{request.id}: the prompt has {length} tokens ({image_tokens} of images), more than "
                f"rollout.max_prompt_tokens={limit}; raise it, or lower policy.max_pixels"
            )

    def _sample(self, requests: Sequence[Request], sampling: Sampling) -> list[Piece]:
        """One piece for each seed, requests in order."""
        policy = self.policy
        device = policy.device
        seeds = [seed for request in requests for seed in request.seeds]
        steps = sampling.max_tokens
        uniforms = draw_uniforms(seeds, steps if sampling.temperature else 1).to(device)
        is_end = torch.zeros_like(policy.banned)  # [V]
        is_end[[i for i in policy.chat.end_ids if i < len(is_end)]] = True
        stops = StopStrings(sampling.stop, policy.chat, len(is_end)) if sampling.stop else None

        with_images = any(request.prompt.images for request in requests)
        first = partial(start_rows, policy, requests, steps)
        rows, logits = policy.rank_sync.run(
            first, with_images=with_images, run_filler=self._run_filler
        )
        tokens = torch.zeros(len(seeds), steps, dtype=torch.long, device=device)
        logprobs = torch.zeros(len(seeds), steps, dtype=torch.float64, device=device)
        lengths = torch.full((len(seeds),), steps, device=device)
        finished = torch.zeros(len(seeds), dtype=torch.bool, device=device)
        batch = torch.arange(len(seeds), device=device)  # rows that are decoded, finished or not
        for t in range(steps):
            last, logprob = sample_tokens(
                logits,
                uniforms[batch, t if sampling.temperature else 0],
                policy.banned,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
            )
            tokens[batch, t], logprobs[batch, t] = last, logprob.double()
            ends = is_end[last]
            if stops is not None:
                ends |= stops.find_completed(tokens[batch, : t + 1], ~finished[batch])
            ends &= ~finished[batch]
            lengths[batch[ends]] = t + 1
            finished[batch[ends]] = True
            unfinished = ~finished[batch]
            broken = ~logprob.isfinite()
            count, failed = torch.stack([unfinished.sum(), broken.sum()]).tolist()
            if (
                count == 0 or failed or t == steps - 1
            ):  # `play` refuses the log-probs that are not finite
                break
            if count < KEEP_SHARE * len(batch):
                index = unfinished.nonzero()[:, 0]
                batch, last, rows = batch[index], last[index], rows.take(index)
            following = partial(decode_step, policy.backbone, rows, last, t)
            logits = policy.rank_sync.run(following, with_images=False, run_filler=self._run_filler)
        return self._pieces(tokens, logprobs, lengths, finished, sampling.stop)

    def _pieces(
        self,
        tokens: Int[Tensor, "N T"],
        logprobs: Float[Tensor, "N T"],
        lengths: Int[Tensor, " N"],
        finished: Bool[Tensor, " N"],
        stop: tuple[str, ...],
    ) -> list[Piece]:
        ids = [
            tuple(row[:length])
            for row, length in zip(tokens.tolist(), lengths.tolist(), strict=True)
        ]
        texts = self.policy.chat.decode_all(ids)
        return [
            Piece(
                ids=row_ids,
                text=cut_at_stop(text, stop),
                logprobs=tuple(row_logprobs[: len(row_ids)]),
                finish="stop" if has_finished else "length",
            )
            for row_ids, text, row_logprobs, has_finished in zip(
                ids, texts, logprobs.tolist(), finished.tolist(), strict=True
            )
        ]


@dataclass(frozen=True, kw_only=True)
class DecodingRows:
    """Completions that are being sampled. Axes: N rows, A rotary axes."""

    next: Int[Tensor, "A N"]  # position of the first token after the prompt
    prompts: PromptCache
    completions: CompletionCache

    @phase("decode")
    def take(self, index: Int[Tensor, " M"]) -> DecodingRows:
        """The rows at `index`, which is ascending."""
        self.completions.take(index)
        return replace(self, next=self.next[:, index], prompts=self.prompts.take(index))


def start_rows(
    policy: Policy, requests: Sequence[Request], steps: int
) -> tuple[DecodingRows, Float[Tensor, "N V"]]:
    """A row for each seed, with room for `steps` tokens, and the logits of its first token."""
    rows, states = prefill(policy.backbone, requests, pad_id=policy.chat.pad_id, steps=steps)
    return rows, compute_logits(policy.backbone, states)


def decode_step(
    backbone: Backbone, rows: DecodingRows, tokens: Int[Tensor, " N"], step: int
) -> Float[Tensor, "N V"]:
    """The logits after `tokens`, token `step` (from 0) of each completion, which is added to the rows' cache."""
    with phase("decode"):
        embeds = backbone.decoder.get_input_embeddings()(tokens[:, None])
        positions = rows.next[..., None] + step
        states = decode(backbone, embeds, positions, rows.completions, rows.prompts)
    return compute_logits(backbone, states[:, 0])


@phase("head")
def compute_logits(backbone: Backbone, states: Float[Tensor, "N H"]) -> Float[Tensor, "N V"]:
    logits: Tensor = backbone.head(states)
    return logits


@phase("prefill")
def prefill(
    backbone: Backbone, requests: Sequence[Request], *, pad_id: int, steps: int
) -> tuple[DecodingRows, Float[Tensor, "N H"]]:
    """Runs each prompt once, padded on the right. Returns a row for each seed, with room for `steps` tokens, and the
    hidden state of its prompt's last token."""
    from transformers import DynamicCache

    prompts: list[Prompt] = [request.prompt for request in requests]
    lengths = [len(prompt.ids) for prompt in prompts]
    longest = max(lengths)
    ids = torch.full((len(prompts), longest), pad_id)
    positions = torch.zeros(backbone.axes, len(prompts), longest + 1, dtype=torch.long)
    for b, (request, length) in enumerate(zip(requests, lengths, strict=True)):
        ids[b, :length] = torch.tensor(request.prompt.ids)
        positions[:, b, : length + 1] = backbone.positions(request.prompt, 1, request.id)
    counts = torch.tensor([len(request.seeds) for request in requests])
    ends = torch.tensor(lengths)
    prompt = torch.arange(len(requests)).repeat_interleave(counts)  # [N]
    following = positions[:, prompt, ends[prompt]]
    device = backbone.device
    cache = DynamicCache(config=backbone.decoder.config)
    inputs = backbone.embed(ids.to(device), backbone.collect_images(prompts))
    states = backbone.prefill(inputs, positions[..., :-1].to(device), lengths, cache)
    real = torch.arange(longest) < ends[:, None]  # no padding
    rows = DecodingRows(
        next=following.to(device),
        prompts=PromptCache.of(cache, real.to(device), counts.to(device)),
        completions=CompletionCache(len(cache.layers), steps),
    )
    return rows, states[prompt.to(device), (ends - 1)[prompt].to(device)]


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
