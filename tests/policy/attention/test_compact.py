"""Packed rows as one row of the tokens that differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import pytest
import torch
from torch import Tensor

from vlrft.policy.attention import compact
from vlrft.policy.attention.compact import CompactRows, count_common_tokens
from vlrft.policy.attention.packed import PackedAttention
from vlrft.policy.attention.rows import PackedRows
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import IMAGE, Prompt
from vlrft.testing.pass_costs import count_costs
from vlrft.testing.small_policies import CORPUS, FAMILIES, ask, noise_image, tiny_config

EXAMPLES = "Which digit is this? 7 How many 3s are there? 12 Which digit is this? 4 "
QUESTIONS = ("Which?", "How many 3s are there? Which digit?", "?")
ANSWERS = (((7, 8, 9), (10,)), ((11, 12), (13, 14, 15, 16)), ((17, 18, 19),))
CPU = torch.device("cpu")
NEVER, ALWAYS = 2.0, -1.0  # shares to leave out at least


@cache
def make_policy(family: str) -> Policy:
    policy = load_policy(tiny_config(family), corpus=[*CORPUS, EXAMPLES])
    policy.model.double()
    return policy


def prompts_of(policy: Policy) -> list[Prompt]:
    """Whose questions come after the same examples, and one of which has an image where the policy sees."""
    images = [[noise_image(56, 84)] if policy.backbone.multimodal else [], [], []]
    return [
        policy.chat.render(ask(EXAMPLES, *[IMAGE] * len(own), question), own)
        for question, own in zip(QUESTIONS, images, strict=True)
    ]


def score(policy: Policy) -> tuple[Tensor, list[Tensor]]:
    """Log-probs and gradients of a batch."""
    items = [PackItem(prompt=p, rows=r) for p, r in zip(prompts_of(policy), ANSWERS, strict=True)]
    mask = torch.tensor([[k < len(row) for k in range(4)] for rows in ANSWERS for row in rows])
    policy.model.zero_grad()
    scores = packed_logprobs(policy, items, mask=mask, temperature=1.0).logprobs
    (scores * torch.linspace(-1, 1, scores.numel()).view(scores.shape)).sum().backward()  # type: ignore[no-untyped-call]
    gradients = [p.grad.clone() for p in policy.model.parameters() if p.grad is not None]
    return scores.detach(), gradients


@pytest.mark.parametrize("family", FAMILIES)
def test_log_probs_and_gradients_are_those_of_rows_as_they_are(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = make_policy(family)
    monkeypatch.setattr(compact, "LEAST_SHARE", NEVER)
    expected, gradients = score(policy)
    monkeypatch.setattr(compact, "LEAST_SHARE", ALWAYS)
    scores, others = score(policy)
    assert bool(expected.abs().sum() > 1)
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-12)
    assert len(gradients) == len(others) > 10
    for ours, theirs in zip(others, gradients, strict=True):  # norms compute in float32
        assert float((ours - theirs).norm()) <= 1e-7 * float(theirs.norm())


@pytest.mark.parametrize("family", ["qwen2", "qwen2_vl"])
def test_rollouts_are_those_of_rows_as_they_are(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = make_policy(family)
    requests = [
        Request(id=str(k), prompt=prompt, seeds=(2 * k, 2 * k + 1))
        for k, prompt in enumerate(prompts_of(policy))
    ]
    rollouts = []
    for share in (NEVER, ALWAYS):
        monkeypatch.setattr(compact, "LEAST_SHARE", share)
        rollouts.append(HfEngine(policy).generate(requests, Sampling(max_tokens=6)))
    as_they_are, made_compact = ([p for group in each for p in group] for each in rollouts)
    assert [piece.ids for piece in made_compact] == [piece.ids for piece in as_they_are]
    for ours, theirs in zip(made_compact, as_they_are, strict=True):
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-6)


def count_tokens(policy: Policy, work: Callable[[Policy], object]) -> int:
    """Tokens that the first layer's projection of keys runs."""
    counted: list[int] = []
    projection = policy.backbone.decoder.layers[0].self_attn.k_proj
    hook = projection.register_forward_hook(
        lambda module, args, output: counted.append(output.shape[:-1].numel())
    )
    try:
        work(policy)
    finally:
        hook.remove()
    return sum(counted)


@pytest.mark.parametrize("family", ["qwen2", "qwen2_vl", "qwen3_vl"])
def test_a_shared_beginning_is_run_once_and_padding_not_at_all(family: str) -> None:
    policy = make_policy(family)
    prompts = prompts_of(policy)
    common = count_common_tokens(prompts, policy.backbone.place_ids)
    assert common > 20
    own = sum(len(prompt.ids) - common for prompt in prompts)
    answers = sum(len(row) - 1 for rows in ANSWERS for row in rows)
    assert count_tokens(policy, score) == common + own + answers

    def sample(policy: Policy) -> None:
        requests = [Request(id="", prompt=prompt, seeds=(0,)) for prompt in prompts]
        HfEngine(policy).generate(requests, Sampling(max_tokens=1))

    assert count_tokens(policy, sample) == common + own


@pytest.mark.parametrize(
    ("ids", "common"),
    [
        ([(1, 2, 3), (1, 2, 4)], 2),
        ([(1, 2), (1, 2, 4)], 2),
        ([(1, 2, 3)], 0),  # a single prompt shares nothing
        ([(5, 2), (1, 2)], 0),
        ([(1, 9, 3, 4), (1, 9, 3, 5)], 1),  # images may differ
    ],
)
def test_a_beginning_ends_with_the_first_difference_or_image(
    ids: Sequence[tuple[int, ...]], common: int
) -> None:
    assert count_common_tokens([Prompt(ids=each) for each in ids], place_ids=[9]) == common


def test_rows_run_as_they_are_where_little_would_be_left_out() -> None:
    assert CompactRows.of(PackedRows(segments=((4, 4), (4, 4)), width=8, common=3), CPU) is None
    rows = CompactRows.of(PackedRows(segments=((4, 2), (4,)), width=6, common=3), CPU)
    assert rows is not None
    assert rows.kept.tolist() == [0, 1, 2, 3, 4, 5, 9]
    assert rows.places[:10].tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 6]


def attention_gradients(rows: PackedRows) -> tuple[Tensor, ...]:
    """Of query, key and value of the tokens of compact rows."""
    made = CompactRows.of(rows, CPU)
    assert made is not None
    torch.manual_seed(0)
    shape = 1, 4, len(made.kept), 64
    query, key, value = (torch.randn(shape, requires_grad=True) for _ in range(3))
    output = PackedAttention(rows, made)(query, key, value, 0.1)
    return torch.autograd.grad(output, (query, key, value), torch.randn(output.shape))


def test_gradients_of_a_shared_beginning_are_summed_in_the_same_order_by_any_threads() -> None:
    rows = PackedRows(segments=((240, 8),) * 24, width=248, common=236)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        first, *others = (attention_gradients(rows) for _ in range(4))
    finally:
        torch.set_num_threads(before)
    assert all(float(gradient.abs().sum()) > 1 for gradient in first)
    for gradients in others:
        assert all(map(torch.equal, first, gradients))


def test_gradients_in_half_precision_are_rounded_once_over_the_rows() -> None:
    rows = PackedRows(segments=((12, 4),) * 600, width=16, common=10)
    made = CompactRows.of(rows, CPU)
    assert made is not None
    tokens = torch.zeros(len(made.kept), 1, dtype=torch.bfloat16, requires_grad=True)
    made.spread(tokens).sum().backward()  # type: ignore[no-untyped-call]
    assert tokens.grad is not None
    assert tokens.grad[:, 0].tolist() == [600.0] * 10 + [1.0] * (600 * 6)


def test_no_copy_of_a_shared_beginning_is_kept_for_the_backward_pass() -> None:
    rows = PackedRows(segments=((100, 2),) * 16, width=102, common=100)
    kept = 100 + 16 * 2
    made = CompactRows.of(rows, CPU)
    assert made is not None
    query, key, value = (torch.randn(1, 4, kept, 64, requires_grad=True) for _ in range(3))
    with count_costs(torch.nn.Module()) as costs:
        PackedAttention(rows, made)(query, key, value, 0.1)
    log_sums = 16 * 102 * 4 * 4  # of all positions
    assert costs.saved_bytes <= 4 * kept * 4 * 64 * 4 + log_sums
