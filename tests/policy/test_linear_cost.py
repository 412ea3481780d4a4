"""The cost of a packed update is linear in the group and in the answers: counted, not timed."""

from __future__ import annotations

import pytest
import torch

from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.schema import Prompt
from vlrft.testing.pass_costs import PassCosts, count_costs
from vlrft.testing.small_policies import CORPUS, tiny_config

PROMPT = 40
HEADS, WIDTH, LAYERS = 4, 16, 2  # of the tiny policy


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy(tiny_config("qwen2"), corpus=CORPUS)


def costs(policy: Policy, group: int, answer: int, prompt: int = PROMPT) -> PassCosts:
    """Of a forward and backward pass."""
    item = PackItem(prompt=Prompt(ids=(5,) * prompt), rows=((7,) * answer,) * group)
    mask = torch.ones(group, answer, dtype=torch.bool)
    with count_costs(policy.model) as counted:
        loss = packed_logprobs(policy, [item], mask=mask, temperature=1.0).logprobs.sum()
        loss.backward()  # type: ignore[no-untyped-call]
    return counted


@pytest.mark.parametrize("prompt", [32, 256])
def test_attention_computes_few_pairs_beyond_the_prompt_s_and_each_answer_s_own(
    policy: Policy, prompt: int
) -> None:
    """Of a sequence of P + G(C − 1) tokens: each answer token with the prompt and with its own answer."""
    group, answer = 16, 33
    tokens = answer - 1  # nothing is predicted from the last one
    pairs = prompt**2 + group * (tokens * prompt + tokens**2)
    passes = 2 + 5  # products of matrices: forward, backward
    exact = passes * 2 * HEADS * WIDTH * LAYERS * pairs
    counted = costs(policy, group, answer, prompt).attention_flops
    assert 0 < counted <= 1.1 * exact
    assert exact < 0.6 * passes * 2 * HEADS * WIDTH * LAYERS * (prompt + group * tokens) ** 2


@pytest.mark.parametrize("what", ["attention_flops", "saved_bytes"])
def test_cost_is_linear_in_the_group(policy: Policy, what: str) -> None:
    four, eight, sixteen = (getattr(costs(policy, group, 17), what) for group in (4, 8, 16))
    assert sixteen - eight <= 2.05 * (eight - four)


def test_memory_is_linear_in_the_answer(policy: Policy) -> None:
    first, second, third = (costs(policy, 8, answer).saved_bytes for answer in (17, 33, 65))
    assert third - second <= 2.05 * (second - first)
