"""Small policies built from a config."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.conftest import Tiny
from vlrft.config import BuildConfig
from vlrft.policy.families._qwen import SPECIAL_TOKENS
from vlrft.policy.load import load_policy
from vlrft.policy.tiny import build_model, build_tokenizer
from vlrft.schema.errors import ConfigError
from vlrft.testing.small_policies import CORPUS, FAMILIES, Family, tiny_config


def test_seed_and_corpus_decide_the_weights(tiny: Tiny) -> None:
    torch.manual_seed(123)
    before = torch.get_rng_state()
    again = load_policy(tiny_config("qwen2_vl"), corpus=CORPUS, seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    first = tiny("qwen2_vl").model.state_dict()
    assert all(
        torch.equal(first[name], tensor) for name, tensor in again.model.state_dict().items()
    )
    other = load_policy(tiny_config("qwen2_vl"), corpus=CORPUS, seed=1)
    name = "model.visual.merger.mlp.0.weight"
    assert not torch.equal(other.model.state_dict()[name], first[name])


def test_the_tokenizer_is_the_same_in_another_process() -> None:
    code = (
        "from vlrft.policy.families._qwen import build_tokenizer; from vlrft.testing.small_policies import CORPUS; "
        "print(sorted(build_tokenizer(CORPUS, 400).get_vocab().items()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(
        sorted(build_tokenizer(BuildConfig(vocab_size=400), CORPUS).get_vocab().items())
    )


def test_half_a_surrogate_pair_in_the_corpus_is_left_to_the_check_of_its_sample() -> None:
    config, texts = BuildConfig(vocab_size=300), ["the cat sat ", "on the mat"]
    broken = build_tokenizer(config, [*texts, "\ud800"])
    assert broken.get_vocab() == build_tokenizer(config, [*texts, "?"]).get_vocab()


def test_a_tokenizer_of_the_same_text_is_another_one() -> None:
    """Its tokens are learned once; what is added to one tokenizer is not in the next."""
    first = build_tokenizer(BuildConfig(vocab_size=300), CORPUS)
    expected = first.get_vocab()
    assert first.add_tokens(["<new>"]) == 1
    assert build_tokenizer(BuildConfig(vocab_size=300), CORPUS).get_vocab() == expected


def test_the_tokenizer_is_bounded_and_lossless_and_ends_with_the_special_tokens() -> None:
    tokenizer = build_tokenizer(BuildConfig(vocab_size=290), ["the cat sat on the mat " * 9])
    assert len(tokenizer) == 290
    assert (
        tuple(tokenizer.convert_ids_to_tokens(range(290 - len(SPECIAL_TOKENS), 290)))
        == SPECIAL_TOKENS
    )
    text = "Größe 1024 — 漢字\n\tx"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert [tokenizer.decode([i]) for i in tokenizer.encode("1024")] == list("1024")


@pytest.mark.parametrize("family", FAMILIES)
def test_all_matrices_but_those_of_patches_and_their_positions_are_scaled(family: Family) -> None:
    config = tiny_config(family).build
    assert config is not None
    tokenizer = build_tokenizer(config, CORPUS)
    plain = build_model(replace(config, init_scale=1.0), tokenizer, 0, "sdpa").state_dict()
    for name, tensor in build_model(config, tokenizer, 0, "sdpa").state_dict().items():
        unscaled = any(part in name for part in ("patch_embed", "pos_embed", "position_embedding"))
        scale = 4.0 if tensor.dim() > 1 and not unscaled else 1.0
        assert torch.equal(tensor, plain[name] * scale), name


def test_the_default_build_has_about_a_million_weights() -> None:
    policy = load_policy(
        tiny_config("qwen2_vl", dtype="float64").__class__(build=BuildConfig()), corpus=CORPUS
    )
    assert 0.9e6 < sum(p.numel() for p in policy.model.parameters()) < 1.2e6


def test_all_sizes_that_do_not_divide_are_reported() -> None:
    build = BuildConfig(hidden_size=100, heads=3, kv_heads=2, vision_width=50, vocab_size=260)
    with pytest.raises(ConfigError) as caught:
        build_model(build, build_tokenizer(BuildConfig(vocab_size=300), []), 0, "sdpa")
    assert "policy.build.hidden_size: must be a multiple of heads" in str(caught.value)
    assert "policy.build.heads: must be a multiple of kv_heads" in str(caught.value)
    assert "policy.build.vocab_size: must be at least 270" in str(caught.value)


def test_sizes_of_a_vision_model_do_not_matter_to_a_text_model() -> None:
    build = BuildConfig(family="qwen2", vision_width=50, vision_heads=3, vocab_size=300)
    assert build_tokenizer(build, CORPUS).get_vocab()
    with pytest.raises(ConfigError, match="vision_width: must be a multiple of vision_heads"):
        build_tokenizer(replace(build, family="qwen2_vl"), CORPUS)
