"""Weights and policies that are not finite are found."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.conftest import Tiny
from vlrft.config import PolicyConfig
from vlrft.distributed.ranks import Ranks
from vlrft.policy.finite import has_finite_logprobs, nonfinite_names
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.schema.errors import ConfigError
from vlrft.testing.small_policies import CORPUS, tiny_config


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_tensors_with_a_nan_or_an_infinity_are_named(dtype: torch.dtype) -> None:
    good = torch.tensor([0.0, torch.finfo(dtype).max, torch.finfo(dtype).min], dtype=dtype)
    bad = {"nan": torch.nan, "inf": torch.inf, "-inf": -torch.inf}
    tensors = {"good": good, "empty": good[:0], "whole": good.reshape(3, 1)}
    tensors |= {k: torch.cat([good, torch.tensor([v], dtype=dtype)]) for k, v in bad.items()}
    assert nonfinite_names(tensors.items()) == ["nan", "inf", "-inf"]
    assert nonfinite_names([]) == []


def scaled(tiny: Tiny, family: str, part: str, factor: float) -> Policy:
    policy = load_policy(tiny_config(family), corpus=CORPUS, seed=0)
    for name, parameter in policy.model.named_parameters():
        if part in name:
            parameter.data *= factor
    return policy


@pytest.mark.parametrize("family", ["qwen2", "qwen2_vl"])
def test_a_policy_of_usual_weights_has_finite_log_probs(tiny: Tiny, family: str) -> None:
    torch.manual_seed(1)
    policy = tiny(family)
    before = torch.get_rng_state()
    assert has_finite_logprobs(policy)
    assert torch.equal(torch.get_rng_state(), before)
    assert policy.model.training


@pytest.mark.parametrize(("family", "part"), [("qwen2", "layers"), ("qwen2_vl", "visual")])
def test_finite_weights_that_overflow_inside_the_model_are_seen(
    tiny: Tiny, family: str, part: str
) -> None:
    policy = scaled(tiny, family, part, 1e30)
    assert nonfinite_names(policy.model.named_parameters()) == []
    assert not has_finite_logprobs(policy)


def test_a_policy_is_finite_only_if_it_is_on_every_rank(tiny: Tiny) -> None:
    class OneElsewhere(Ranks):
        def sum_each(self, *values: float) -> list[float]:
            return [value + 1 for value in values]

    assert not has_finite_logprobs(tiny("qwen2"), OneElsewhere(size=2))


def test_a_model_with_weights_that_are_not_finite_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    scaled(tiny, "qwen2", "embed_tokens", torch.nan).save(tmp_path / "model")
    message = (
        r"1 of its weights hold NaN or infinite numbers, such as model.embed_tokens.weight; use"
    )
    with pytest.raises(ConfigError, match=message):
        load_policy(PolicyConfig(model=str(tmp_path / "model")))
