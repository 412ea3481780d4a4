from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.memory.shapes import MODEL
from vlrft.config import UpdateConfig
from vlrft.engine import build_engine
from vlrft.engine.gradient_buckets import BUCKET_BYTES
from vlrft.engine.lr_schedule import learning_rate
from vlrft.engine.single import Single, SingleEngine
from vlrft.memory.rank_memory import GradientMemory
from vlrft.memory.shapes import WeightBytes
from vlrft.policy.load import load_policy
from vlrft.schema.errors import DivergedError, NonFiniteError
from vlrft.testing.small_policies import CORPUS, tiny_config


def rates(steps: int, **settings: object) -> list[float]:
    config = UpdateConfig(lr=1.0, **settings)  # type: ignore[arg-type]
    return [learning_rate(config, k, steps) for k in range(steps)]


def test_schedules_by_hand() -> None:
    assert rates(3) == [1.0, 1.0, 1.0]
    assert rates(4, schedule="linear") == [1.0, 0.75, 0.5, 0.25]
    assert rates(4, schedule="cosine") == pytest.approx([1.0, 0.853553, 0.5, 0.146447], abs=1e-6)
    assert rates(4, warmup_steps=2, schedule="linear") == [0.5, 1.0, 1.0, 0.5]
    floor = {"min_lr_ratio": 0.1}  # transformers' cosine_with_min_lr: 0.1 + 0.9 · ½ (1 + cos)
    assert rates(4, schedule="cosine", **floor) == pytest.approx(
        [1.0, 0.868198, 0.55, 0.231802], abs=1e-6
    )
    assert rates(4, schedule="linear", **floor) == pytest.approx([1.0, 0.775, 0.55, 0.325])
    assert rates(2, **floor) == [1.0, 1.0]


def make_engine(dtype: str = "float32", **settings: object) -> SingleEngine:
    policy = load_policy(tiny_config("qwen2", dtype=dtype), corpus=CORPUS, seed=0)
    engine = build_engine(UpdateConfig(**{"lr": 1e-2, **settings}), policy, 10)  # type: ignore[arg-type]
    assert isinstance(engine, SingleEngine)
    return engine


def give_gradients(engine: SingleEngine, value: float) -> None:
    """Of a loss whose gradient is `value` everywhere."""
    loss = torch.stack([parameter.float().sum() for parameter in engine.parameters]).sum()
    engine.backward(loss * value, last=True)


def test_gradients_are_clipped_and_the_norm_before_clipping_is_reported() -> None:
    engine = make_engine(max_grad_norm=0.5)
    give_gradients(engine, 1.0)
    count = sum(p.numel() for p in engine.parameters)
    assert engine.step()["grad_norm"] == pytest.approx(count**0.5, rel=1e-4)
    first = engine.optimizer.state[engine.parameters[0]]["exp_avg"].flatten()[0]
    assert float(first) == pytest.approx(0.1 * 0.5 / count**0.5, rel=1e-3)
    unclipped = make_engine(max_grad_norm=None)
    give_gradients(unclipped, 1.0)
    unclipped.step()
    moment = unclipped.optimizer.state[unclipped.parameters[0]]["exp_avg"].flatten()[0]
    assert float(moment) == pytest.approx(0.1, rel=1e-4)


def test_a_step_without_a_finite_gradient_changes_nothing() -> None:
    engine = make_engine()
    before = [p.detach().clone() for p in engine.parameters]
    give_gradients(engine, 1.0)
    engine.weights[0].grad = torch.full_like(engine.weights[0], float("nan"))
    with pytest.raises(NonFiniteError, match="gradient norm is nan"):
        engine.step()
    engine.discard()
    assert all(torch.equal(a, b) for a, b in zip(before, engine.parameters, strict=True))
    assert all(p.grad is None for p in engine.parameters)
    assert engine.steps == 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_step_after_which_a_weight_is_not_finite_is_an_error(dtype: str) -> None:
    engine = make_engine(dtype, lr=1e12, weight_decay=1e30)
    give_gradients(engine, 1.0)
    with pytest.raises(DivergedError, match=r"after the optimiser step, such as model\.\w+"):
        engine.step()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_optimizer_resumes_bit_by_bit_from_its_state(dtype: str) -> None:
    """Float32 copies of bf16 weights are part of the state."""
    one, other = make_engine(dtype, lr=1e-5), make_engine(dtype, lr=1e-5)
    for engine in (one, other):
        give_gradients(engine, 0.3)
        engine.step()
    fresh = build_engine(one.config, other.policy, 10)
    tensors, values = one.state()
    fresh.load_state({k: v.clone() for k, v in tensors.items()}, values)
    assert isinstance(fresh, SingleEngine)
    copied = [not torch.equal(w, p.float()) for w, p in zip(fresh.weights, fresh.parameters, strict=True)]  # fmt: skip
    assert any(copied) == (dtype == "bfloat16")
    for engine in (one, fresh):
        give_gradients(engine, -0.7)
        engine.step()
    assert all(torch.equal(a, b) for a, b in zip(one.parameters, fresh.parameters, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(one.weights, fresh.weights, strict=True))


def test_epsilon_makes_steps_shrink_with_the_gradient() -> None:
    change = {}
    for eps in (1e-8, 1.0):
        engine = make_engine(eps=eps, max_grad_norm=None)
        before = engine.parameters[0].detach().clone()
        give_gradients(engine, 1e-3)
        engine.step()
        change[eps] = float((engine.parameters[0].detach() - before).abs().max())
    assert change[1e-8] == pytest.approx(1e-2, rel=1e-2)
    assert change[1.0] == pytest.approx(1e-5, rel=1e-2)


def test_small_steps_of_bf16_weights_add_up() -> None:
    """Twenty steps of 1e-5 are 2e-4; one alone is below the last bit of most weights."""
    engine, exact = make_engine("bfloat16", lr=1e-5), make_engine(lr=1e-5)
    lost = make_engine("bfloat16", lr=1e-5, master_weights=False)
    before = [p.detach().clone() for p in engine.parameters]
    with torch.no_grad():
        for twin in exact, lost:
            for parameter, start in zip(twin.parameters, before, strict=True):
                parameter.copy_(start)
    for _ in range(20):
        for each in engine, exact, lost:
            give_gradients(each, 1.0)
            each.step()
    for parameter, wanted in zip(engine.parameters, exact.parameters, strict=True):
        assert parameter.dtype == torch.bfloat16
        assert torch.equal(parameter, wanted.bfloat16())
    large = before[0].abs() > 0.05
    assert bool((engine.parameters[0] != before[0])[large].any())
    assert torch.equal(lost.parameters[0][large], before[0][large])


def test_gradients_of_micro_batches_are_summed_in_float32() -> None:
    """1 + 256 · 2⁻⁹ = 1.5; in bf16 each small one would be lost."""
    engine = make_engine("bfloat16", max_grad_norm=None)
    give_gradients(engine, 1.0)
    for _ in range(256):
        give_gradients(engine, 2.0**-9)
    assert all(p.grad is None for p in engine.parameters)
    gradients = [w.grad for w in engine.weights]
    assert all(g is not None and bool((g == 1.5).all()) for g in gradients)


def test_every_rank_holds_all_weights_and_the_whole_optimiser() -> None:
    half = WeightBytes(total=200, trained=200, embedding=0, base=200, half=200, sizes=(60, 40))
    model = replace(MODEL, element=2, weights=half)
    memory = Single().rank_memory(UpdateConfig(), model, 8)
    assert memory.held == {"weights": 200, "float32 copies": 400, "optimiser moments": 800}
    # A bfloat16 gradient is freed as soon as it is added to its float32 sum.
    assert memory.gradients == GradientMemory(fresh=400, summed=400, in_place=True)
    assert memory.step == {"gradients": 400}
    assert memory.saving == {}  # tensors are written one at a time, without a copy
    assert memory.checkpoint == {"float32 copies": 400, "optimiser moments": 800}
    assert (memory.reducing, memory.reduce_from) == ({"communication buckets": 400}, 1.0)
    assert Single().rank_memory(UpdateConfig(), model, 1).reducing == {}
    large = replace(model, weights=replace(half, trained=2**30, half=2**30))
    sent = Single().rank_memory(UpdateConfig(), large, 2)  # through one bucket after another
    assert sent.reducing == {"communication buckets": BUCKET_BYTES}
    assert sent.reduce_from == BUCKET_BYTES / 2**31
    plain = Single().rank_memory(UpdateConfig(master_weights=False), model, 8)
    assert plain.held == {"weights": 200, "float32 copies": 0, "optimiser moments": 400}
    assert plain.gradients == GradientMemory(fresh=200, summed=200, in_place=True)


def test_an_optimizer_that_forgets_takes_the_step_of_a_fresh_one() -> None:
    one, other = make_engine("float32", lr=1e-3), make_engine("float32", lr=1e-3)
    for _ in range(2):
        give_gradients(one, 0.3)
        one.step()
    one.reset_moments()
    other.policy.load_weights(one.policy.trained_weights())
    for engine in (one, other):
        give_gradients(engine, -0.7)
        engine.step()
    assert all(torch.equal(a, b) for a, b in zip(one.parameters, other.parameters, strict=True))
    assert one.steps == 3
