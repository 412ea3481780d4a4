"""FSDP2 on one rank takes the steps of `single` bit for bit, leaves the policy's own modules alone, and hands its state to
other engines. Several ranks: `tests/engine/test_sharded_steps.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from vlrft.algorithms import ALGORITHMS
from vlrft.config import LoraConfig, UpdateConfig
from vlrft.distributed.ranks import ALONE
from vlrft.engine import TrainEngine, build_engine
from vlrft.engine.forward import token_logprobs
from vlrft.policy.finite import has_finite_logprobs
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.policy import Policy
from vlrft.schema import Group
from vlrft.schema.errors import ConfigError, DivergedError, NonFiniteError
from vlrft.testing.engine_steps import BUDGET, UPDATE, ragged_groups, step_batches
from vlrft.testing.small_policies import CORPUS, Family, group_of, tiny_config
from vlrft.trainer.update import update

LORA: dict[str, Any] = {"lora": LoraConfig(rank=4)}


@pytest.fixture(autouse=True, scope="module")
def process_group() -> Iterator[None]:
    """FSDP2 creates a group of one process; later tests must find none."""
    yield
    dist.destroy_process_group()


def make_policy(family: Family = "qwen2_vl", **settings: Any) -> Policy:
    return load_policy(tiny_config(family, **settings), corpus=CORPUS, seed=0)


def make_engine(policy: Policy, config: UpdateConfig = UPDATE, name: str = "fsdp") -> TrainEngine:
    return build_engine(config, policy, 4, ALONE, name)


def text_group(policy: Policy) -> Group:
    return group_of(policy.chat, "red?", [1.0, 0.0, 0.5], ["red", "a blue one", ""])


def step(engine: TrainEngine, *, text: bool = False) -> None:
    groups = [text_group(engine.policy)] if text else ragged_groups(engine.policy)
    batches = step_batches(groups, "gpg", ALONE)
    _, skipped = update(engine, batches, ALGORITHMS["gpg"], BUDGET)
    assert not skipped


def weights_copy(policy: Policy) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in policy.trained_weights().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(t, other[n]) for n, t in one.items())


def course(name: str, config: UpdateConfig, **settings: Any) -> dict[str, Tensor]:
    """Weights, moments and float32 copies after two steps of text, and one with images between them for a model that sees, after
    which the optimiser forgets."""
    policy = make_policy(**settings)
    engine = make_engine(policy, config, name)
    for text in (True, False, True) if policy.backbone.multimodal else (True, True):
        step(engine, text=text)
        if not text:
            engine.reset_moments()
    state = {key: tensor.clone() for key, tensor in engine.state()[0].items()}
    engine.close()
    return weights_copy(policy) | state


@pytest.mark.parametrize(
    ("settings", "copies"),
    [
        ({}, True),
        ({"family": "qwen2", "dtype": "bfloat16"}, True),
        ({"family": "qwen2", "dtype": "bfloat16"}, False),
        ({"family": "qwen2", "dtype": "bfloat16", **LORA}, True),
    ],
)
def test_steps_on_one_rank_are_those_of_single_bit_for_bit(
    settings: dict[str, Any], copies: bool
) -> None:
    config = UpdateConfig(lr=1e-3, max_grad_norm=0.5, eps=1e-3, master_weights=copies)
    expected = course("single", config, **settings)
    assert same(course("fsdp", config, **settings), expected)
    assert any(name.endswith("/weight") for name in expected) == (
        copies and "dtype" in settings and "lora" not in settings
    )


@pytest.mark.parametrize("settings", [{}, LORA], ids=["all weights", "adapters"])
def test_the_policys_own_modules_are_empty_while_weights_are_sharded_and_ordinary_otherwise(
    settings: dict[str, Any],
) -> None:
    policy = make_policy(**settings)
    start, classes = weights_copy(policy), [type(module) for module in policy.model.modules()]
    sizes = [parameter.shape for parameter in policy.model.parameters()]
    engine = make_engine(policy)
    for context in (engine.unsharded, engine.unsharded_on_first_rank, engine.ready_to_sample):
        assert {p.numel() for p in policy.model.parameters()} == {0}
        with context():
            assert policy.scorer is policy.own_scorer
            assert bool(torch.isfinite(scores(policy)).all())
            assert same(weights_copy(policy), start)
    assert has_finite_logprobs(policy)  # gathers the weights by itself
    engine.close()
    assert same(weights_copy(policy), start)
    assert [parameter.shape for parameter in policy.model.parameters()] == sizes
    assert [type(module) for module in policy.model.modules()] == classes
    assert policy.scorer is policy.own_scorer


def test_a_reference_without_adapters_is_the_model_as_it_was() -> None:
    policy = make_policy(**LORA)
    reference = policy.reference()
    engine = make_engine(policy)
    before = [scores(policy), scores(reference)]
    step(engine)
    after = [scores(policy), scores(reference)]
    assert torch.equal(after[1], before[1])
    assert not torch.equal(after[0], before[0])
    engine.close()
    assert torch.equal(scores(policy), after[0])


def scores(policy: Policy) -> Tensor:
    """Log-probs of a few tokens, by the scorer that the policy has now."""
    (batch,) = step_batches([text_group(policy)], "gpg", ALONE)
    with torch.no_grad():
        mask, temperature = batch.loss.mask, batch.temperature
        return packed_logprobs(policy, batch.items(), mask=mask, temperature=temperature).logprobs


def test_a_step_without_a_finite_gradient_changes_nothing() -> None:
    policy = make_policy("qwen2")
    start, engine = weights_copy(policy), make_engine(policy)
    (batch,) = step_batches([text_group(policy)], "gpg", ALONE)
    scorer = engine.scorer
    assert scorer is not None
    for factor in (1.0, float("inf")):
        mask, temperature = batch.loss.mask, batch.temperature
        found = token_logprobs(engine, batch.items(), mask, temperature)
        engine.backward((found.logprobs * factor).sum(), last=factor != 1.0)
    with pytest.raises(NonFiniteError, match="the gradient norm is"):
        engine.step()
    engine.discard()
    assert engine.step()["grad_norm"] == 0.0  # no gradient is left
    with engine.unsharded():
        assert same(weights_copy(policy), start)
    engine.close()


def test_a_step_after_which_a_weight_is_not_finite_is_an_error() -> None:
    policy = make_policy("qwen2")
    engine = make_engine(policy, UpdateConfig(lr=1e12, weight_decay=1e30))
    with pytest.raises(DivergedError, match=r"after the optimiser step, such as model\.\w+"):
        step(engine, text=True)
    engine.close()


def test_a_state_goes_to_single_and_back_with_every_bit() -> None:
    """Text alone comes first, so that the vision model has no moments yet."""
    policy = make_policy(dtype="bfloat16")
    first = make_engine(policy)
    step(first, text=True)
    state, counters = first.state()
    assert not any("visual" in name for name in state if name.endswith("exp_avg"))
    first.close()
    second = make_engine(policy, name="single")
    second.load_state(state, counters)
    third = make_engine(policy)
    third.load_state(*second.state())
    assert same(third.state()[0], state)
    step(third)
    third.close()
    uninterrupted = make_policy(dtype="bfloat16")
    whole = make_engine(uninterrupted)
    step(whole, text=True)
    step(whole)
    whole.close()
    assert same(weights_copy(policy), weights_copy(uninterrupted))


def test_weights_that_fsdp2_cannot_shard_are_refused() -> None:
    policy = make_policy()
    quantised = torch.nn.Parameter(torch.zeros(2, dtype=torch.uint8), requires_grad=False)
    policy.model.register_parameter("packed", quantised)
    with pytest.raises(
        ConfigError, match=r"engine: fsdp cannot shard packed, .* torch\.uint8; use single"
    ):
        make_engine(policy)
