"""Sampling in bfloat16 with the large scores that released Qwen2 models have."""

from __future__ import annotations

import torch

from vlrft.config import BuildConfig, PolicyConfig
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.testing.small_policies import ask

HEADS, KEY_HEADS, WIDTH = 2, 1, 128
SCORE = 300.0  # added to q·k / √D of every pair of tokens
ROWS, TOKENS = 4, 24


def policy_with_large_scores() -> Policy:
    """q and k get a bias in two channels that rotate slowly, so that all scores are large and differ little."""
    build = BuildConfig(
        family="qwen2",
        hidden_size=HEADS * WIDTH,
        heads=HEADS,
        kv_heads=KEY_HEADS,
        layers=4,
        intermediate_size=256,
        vocab_size=300,
        init_scale=2.0,
    )
    policy = load_policy(PolicyConfig(build=build, dtype="bfloat16"), corpus=["one two"], seed=0)
    policy.chat.end_ids = frozenset()
    with torch.no_grad():
        for layer in policy.backbone.decoder.layers:
            for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj):
                channels = projection.bias.view(-1, WIDTH)
                channels[:, [WIDTH // 2 - 4, WIDTH // 2 - 1]] = (SCORE * WIDTH**0.5 / 2) ** 0.5
    return policy


def test_log_probs_of_large_bfloat16_scores_are_those_of_the_trainer() -> None:
    policy = policy_with_large_scores()
    prompt = policy.chat.render(ask("one two three " * 20))
    request = Request(id="s", prompt=prompt, seeds=tuple(range(ROWS)))
    (group,) = HfEngine(policy).generate([request], Sampling(max_tokens=TOKENS))
    item = PackItem(prompt=prompt, rows=tuple(piece.ids for piece in group))
    mask = torch.ones(ROWS, TOKENS, dtype=torch.bool)
    with torch.no_grad():
        trained = packed_logprobs(policy, [item], mask=mask, temperature=1.0).logprobs
    gap = (torch.tensor([piece.logprobs for piece in group]) - trained.double()).abs()
    # Without large scores 0.004; with scores rounded to bfloat16 0.09.
    assert float(gap.mean()) < 0.012
