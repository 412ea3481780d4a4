"""Log-probs of tokens under a policy: the packed forward of training, and transformers' plain forward that it must equal.

Both, and the sampler, define log-probs alike: log-softmax(logits / temperature) with banned tokens masked out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vlrft.distributed.cuda_settings import to_device
from vlrft.distributed.phases import phase
from vlrft.memory.limits import replicated_rows
from vlrft.policy.agreement import RowGap, require_agreement
from vlrft.policy.linear_logprobs import logprobs_of_logits
from vlrft.policy.packing import PackItem, pack
from vlrft.policy.policy import Policy
from vlrft.schema import Pixels
from vlrft.schema.errors import NonFiniteError


@dataclass(frozen=True, kw_only=True)
class TokenLogprobs:
    """`logprobs[b, t] = log π(row b's token t | prompt, tokens before t)`; 0 where `mask` is false."""

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
    """Log-probs of the items' rows, in order, where `mask` [B T] is true; on the policy's device. `fillers` are run with
    the items, without results. `scorer`: an engine's wrapper of the policy's scorer.

    Each prompt is run once and each distinct image is encoded once. Differentiable in the policy's weights, also under
    activation checkpointing, as there is no KV cache. Raises DataError for prompts whose image tokens do not fit their
    images, ValueError for a mask that does not fit the rows.
    """
    rows, width = mask.shape
    if fillers:
        extra = sum(len(item.rows) for item in fillers)
        mask = nn.functional.pad(mask, (0, max(1 - width, 0), 0, extra))
    pad_id = policy.chat.pad_id
    packed = pack([*items, *fillers], mask, policy.backbone, pad_id=pad_id).to(policy.device)
    with policy.in_use():
        run = scorer or policy.scorer
        logprobs, entropy = run(packed, policy.banned, temperature, entropy_gradient)
    scattered = _scatter(logprobs, entropy, packed.slots, mask.shape)
    return TokenLogprobs(
        logprobs=scattered.logprobs[:rows, :width], entropy=scattered.entropy[:rows, :width]
    )


def replicated_logprobs(
    policy: Policy, items: Sequence[PackItem], *, mask: Bool[Tensor, "B T"], temperature: float
) -> TokenLogprobs:
    """As `packed_logprobs`, by transformers' own forward with one unpacked row per completion: the reference."""
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
    row_of, token_of = slots // mask.shape[1], slots % mask.shape[1]
    at = torch.tensor(starts)[row_of] + token_of
    targets = ids[row_of, at].to(policy.device)
    selected = logits[row_of.to(policy.device), at.to(policy.device) - 1]
    values = logprobs_of_logits(selected, targets, policy.banned, temperature)
    return _scatter(*values, slots.to(policy.device), mask.shape)


def model_inputs(
    policy: Policy, ids: Int[Tensor, "B T"], real: Int[Tensor, "B T"], images: Sequence[Pixels]
) -> dict[str, Tensor]:
    """The arguments of transformers' own forward and `generate()`, on the policy's device. `real`: 0 at padding."""
    inputs = {"input_ids": ids, "attention_mask": real}
    inputs |= policy.backbone.model_inputs(ids, images)
    return {name: to_device(value, policy.device) for name, value in inputs.items()}


@phase("self_check")
def self_check(
    policy: Policy,
    items: Sequence[PackItem],
    *,
    mask: Bool[Tensor, "B T"],
    temperature: float,
    names: Sequence[str] = (),
) -> float:
    """The largest difference between packed and replicated log-probs, without dropout and without gradients, over up to
    four rows of each item (`_parts`).

    Raises SelfCheckError, with the row's name from `names` [B], where they differ by more than rounding explains
    (`vlrft.policy.agreement`), and NonFiniteError where a log-prob is NaN or infinite.
    """
    gaps: list[RowGap] = []
    with torch.no_grad(), without_dropout(policy.model):
        packed = packed_logprobs(policy, items, mask=mask, temperature=temperature).logprobs
        for rows, part in _parts(items, len(policy.banned)):
            expected = replicated_logprobs(
                policy, part, mask=mask[rows], temperature=temperature
            ).logprobs
            for row, gap in zip(rows, (packed[rows] - expected).abs(), strict=True):
                name = names[row] if names else f"row {row}"
                if not bool(gap.isfinite().all()):
                    raise NonFiniteError(
                        f"{name}: the policy's log-probs are NaN or infinite; its weights are not finite or too large, or an "
                        "answer has a token that the policy never samples"
                    )
                gaps.append(RowGap.of(gap, mask[row], name))
    require_agreement(gaps, policy.rounding_dtype)
    return max((gap.largest for gap in gaps), default=0.0)


def _scatter(logprobs: Tensor, entropy: Tensor, slots: Tensor, shape: torch.Size) -> TokenLogprobs:
    """The values at their slots of [B T]; exactly 0 elsewhere."""
    empty = logprobs.new_zeros(shape.numel())
    return TokenLogprobs(
        logprobs=empty.index_put((slots,), logprobs).view(shape),
        entropy=empty.index_put((slots,), entropy).view(shape),
    )


def _parts(items: Sequence[PackItem], vocab: int) -> Iterator[tuple[list[int], list[PackItem]]]:
    """The first, the last, the longest and the shortest row of each item, alone with their prompt, and their numbers; as many
    at once as `replicated_rows` allows.

    The last row comes after all others of the item, so rows that see each other, or lie or are scored at wrong positions,
    change its log-probs; the first shows the prompt's part alone. Rows of different lengths may be computed in different
    calls of a kernel.
    """
    numbers: list[int] = []
    rows: list[PackItem] = []
    first = 0
    for item in items:
        by_length = sorted(range(len(item.rows)), key=lambda k: len(item.rows[k]))
        for k in sorted({0, len(item.rows) - 1, by_length[0], by_length[-1]}):
            numbers.append(first + k)
            rows.append(replace(item, rows=item.rows[k : k + 1], images=item.images[k : k + 1]))
        first += len(item.rows)
    lengths = [len(row.prompt.ids) + len(row.rows[0]) for row in rows]
    size = replicated_rows(vocab, max(lengths))
    for start in range(0, len(rows), size):
        yield numbers[start : start + size], rows[start : start + size]


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """A context without dropout; everything else, such as activation checkpointing, is as in training."""
    active = [m for m in model.modules() if isinstance(m, nn.Dropout) and m.training]
    for module in active:
        module.eval()
    try:
        yield
    finally:
        for module in active:
            module.train()
