"""Log-probs of given tokens under a policy: the packed forward that training uses, and the plain one it must equal.

One definition for both and for the sampler: log-softmax(logits / temperature) with banned tokens masked out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vlrft.memory.limits import replicated_rows
from vlrft.policy.linear_logprobs import logprobs_of_logits
from vlrft.policy.packing import PackItem, pack
from vlrft.policy.policy import Policy
from vlrft.schema import Pixels
from vlrft.schema.errors import SelfCheckError
from vlrft.tracing.phases import phase

BOUNDS = {torch.float64: 1e-8, torch.float32: 1e-4}
HALF_BOUND = 0.25  # bf16 and fp16 have 8 and 11 bits: single tokens differ by some hundredths between two orders of work


@dataclass(frozen=True, kw_only=True)
class TokenLogprobs:
    """`logprobs[b, t] = log π(row b's token t | prompt, tokens before t)`; 0 where it was not asked for."""

    logprobs: Float[Tensor, "B T"]  # float32 at least
    entropy: Float[Tensor, "B T"]  # of the same distribution, in nats


@phase("forward")
def packed_logprobs(
    policy: Policy,
    items: Sequence[PackItem],
    *,
    mask: Bool[Tensor, "B T"],
    temperature: float,
    entropy_gradient: bool = False,
    fillers: Sequence[PackItem] = (),
    scorer: Callable[..., tuple[Tensor, Tensor]] | None = None,
) -> TokenLogprobs:
    """Log-probs of the items' rows, in order, at the positions of `mask` [B T]; on the policy's device. Items `fillers`
    are run with them and not scored. `scorer`: what an engine has wrapped the policy's own in.

    Each prompt is run once, each distinct image encoded once. Differentiable in the policy's weights; right under
    activation checkpointing, for there is no cache. Raises DataError for prompts whose images do not fit,
    ValueError for a mask that does not fit the rows.
    """
    rows, width = mask.shape
    if fillers:
        extra = sum(len(item.rows) for item in fillers)
        mask = nn.functional.pad(mask, (0, max(1 - width, 0), 0, extra))
    everything = [*items, *fillers]
    packed = pack(everything, mask, policy.backbone, pad_id=policy.chat.pad_id).to(policy.device)
    with policy.in_use():
        run = scorer or policy.scorer
        logprobs, entropy = run(packed, policy.banned, temperature, entropy_gradient)
    found = _spread(logprobs, entropy, packed.slots, mask.shape)
    return TokenLogprobs(
        logprobs=found.logprobs[:rows, :width], entropy=found.entropy[:rows, :width]
    )


def replicated_logprobs(
    policy: Policy, items: Sequence[PackItem], *, mask: Bool[Tensor, "B T"], temperature: float
) -> TokenLogprobs:
    """The same by transformers' own forward, a whole row for each completion: the standard to be held to."""
    rows = [item.unpack(k) for item in items for k in range(len(item.rows))]
    starts = [len(item.prompt.ids) for item in items for _ in item.rows]
    ids = torch.full((len(rows), max(len(row.ids) for row in rows)), policy.chat.pad_id)
    real = torch.zeros(ids.shape, dtype=torch.long)
    for b, row in enumerate(rows):
        ids[b, : len(row.ids)] = torch.tensor(row.ids)
        real[b, : len(row.ids)] = 1
    inputs = model_inputs(policy, ids, real, [image for row in rows for image in row.images])
    with policy.in_use():
        logits = policy.model(**inputs, use_cache=False).logits
    slots = mask.cpu().flatten().nonzero()[:, 0]
    own, t = slots // mask.shape[1], slots % mask.shape[1]
    at = torch.tensor(starts)[own] + t
    targets = ids[own, at].to(policy.device)
    picked = logits[own.to(policy.device), at.to(policy.device) - 1]
    found = logprobs_of_logits(picked, targets, policy.banned, temperature)
    return _spread(*found, slots.to(policy.device), mask.shape)


def model_inputs(
    policy: Policy, ids: Int[Tensor, "B T"], real: Int[Tensor, "B T"], images: Sequence[Pixels]
) -> dict[str, Tensor]:
    """The arguments of transformers' own forward and `generate()`, on the policy's device. `real`: 0 at padding."""
    inputs = {"input_ids": ids, "attention_mask": real}
    inputs |= policy.backbone.model_inputs(ids, images)
    return {name: value.to(policy.device) for name, value in inputs.items()}


@phase("self_check")
def self_check(
    policy: Policy,
    items: Sequence[PackItem],
    *,
    mask: Bool[Tensor, "B T"],
    temperature: float,
    names: Sequence[str] = (),
) -> float:
    """The largest difference between packed and replicated log-probs, without dropout and without gradients.

    Raises SelfCheckError beyond 1e-4 (float32; float64 1e-8, half precision 0.25), naming the row by `names` [B].
    """
    bound = BOUNDS.get(policy.dtype, HALF_BOUND)
    worst = 0.0
    with torch.no_grad(), _no_dropout(policy.model):
        found = packed_logprobs(policy, items, mask=mask, temperature=temperature).logprobs
        for rows, part in _parts(items, len(policy.banned)):
            expected = replicated_logprobs(
                policy, part, mask=mask[rows], temperature=temperature
            ).logprobs
            gaps = (found[rows] - expected).abs().amax(1)
            gap, row = float(gaps.max()), int(gaps.argmax())
            worst = max(worst, gap)
            if not gap <= bound:
                name = names[rows.start + row] if names else f"row {rows.start + row}"
                raise SelfCheckError(
                    f"{name}: packed and replicated log-probs differ by {gap:.2g}, more than {bound:g} "
                    f"({policy.dtype}); this architecture or attention does not suit the packed forward"
                )
    return worst


def _spread(logprobs: Tensor, entropy: Tensor, slots: Tensor, shape: torch.Size) -> TokenLogprobs:
    """The scored tokens' values at their places of [B T]; exactly 0 elsewhere."""
    empty = logprobs.new_zeros(shape.numel())
    return TokenLogprobs(
        logprobs=empty.index_put((slots,), logprobs).view(shape),
        entropy=empty.index_put((slots,), entropy).view(shape),
    )


def _parts(items: Sequence[PackItem], vocab: int) -> Iterator[tuple[slice, list[PackItem]]]:
    """Single rows with their prompts, as many at once as `replicated_rows` allows."""
    rows = [
        PackItem(prompt=item.prompt, rows=(own,), images=item.images[k : k + 1])
        for item in items
        for k, own in enumerate(item.rows)
    ]
    lengths = [len(row.prompt.ids) + len(row.rows[0]) for row in rows]
    size = replicated_rows(vocab, max(lengths))
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        yield slice(start, start + len(part)), part


@contextmanager
def _no_dropout(model: nn.Module) -> Iterator[None]:
    """Dropout layers off; all else, such as activation checkpointing, stays as in training."""
    active = [m for m in model.modules() if isinstance(m, nn.Dropout) and m.training]
    for module in active:
        module.eval()
    try:
        yield
    finally:
        for module in active:
            module.train()
