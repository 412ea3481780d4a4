from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.fakes.policies import CORPUS, tiny_config
from tests.memory.shapes import MODEL
from vlrft.config import UpdateConfig
from vlrft.engine import build_engine
from vlrft.engine.lr_schedule import learning_rate
from vlrft.engine.single import Single, SingleEngine
from vlrft.memory.rank_memory import GradientMemory
from vlrft.memory.shapes import WeightBytes
from vlrft.policy.load import load_policy
from vlrft.schema.errors import NonFiniteError


def rates(steps: int, **settings: object) -> list[float]:
    config = UpdateConfig(lr=1.0, **settings)  # type: ignore[arg-type]
    return [learning_rate(config, k, steps) for k in range(steps)]


def test_schedules_by_hand() -> None:
    assert rates(3) == [1.0, 1.0, 1.0]
    assert rates(4, schedule="linear") == [1.0, 0.75, 0.5, 0.25]
    assert rates(4, schedule="cosine") == pytest.approx([1.0, 0.853553, 0.5, 0.146447], abs=1e-6)
    assert rates(4, warmup_steps=2, schedule="linear") == [0.5, 1.0, 1.0, 0.5]


def engine(dtype: str = "float32", **settings: object) -> SingleEngine:
    policy = load_policy(tiny_config("qwen2", dtype=dtype), corpus=CORPUS, seed=0)
    made = build_engine(UpdateConfig(**{"lr": 1e-2, **settings}), policy, 10)  # type: ignore[arg-type]
    assert isinstance(made, SingleEngine)
    return made


def give_gradients(made: SingleEngine, value: float) -> None:
    """Of a loss whose gradient is `value` everywhere."""
    loss = torch.stack([parameter.float().sum() for parameter in made.parameters]).sum()
    made.backward(loss * value)


def test_gradients_are_clipped_to_the_norm_and_the_norm_before_is_told() -> None:
    made = engine(max_grad_norm=0.5)
    give_gradients(made, 1.0)
    count = sum(p.numel() for p in made.parameters)
    assert made.step()["grad_norm"] == pytest.approx(count**0.5, rel=1e-4)
    first = made.optimizer.state[made.parameters[0]]["exp_avg"].flatten()[0]
    assert float(first) == pytest.approx(0.1 * 0.5 / count**0.5, rel=1e-3)
    free = engine(max_grad_norm=None)
    give_gradients(free, 1.0)
    free.step()
    moment = free.optimizer.state[free.parameters[0]]["exp_avg"].flatten()[0]
    assert float(moment) == pytest.approx(0.1, rel=1e-4)


def test_a_step_without_a_finite_gradient_changes_nothing() -> None:
    made = engine()
    before = [p.detach().clone() for p in made.parameters]
    give_gradients(made, 1.0)
    made.weights[0].grad = torch.full_like(made.weights[0], float("nan"))
    with pytest.raises(NonFiniteError, match="gradient norm is nan"):
        made.step()
    made.discard()
    assert all(torch.equal(a, b) for a, b in zip(before, made.parameters, strict=True))
    assert all(p.grad is None for p in made.parameters)
    assert made.steps == 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_optimizer_goes_on_bit_by_bit_from_its_state(dtype: str) -> None:
    """Float32 copies of bf16 weights are part of the state."""
    one, other = engine(dtype, lr=1e-5), engine(dtype, lr=1e-5)
    for made in (one, other):
        give_gradients(made, 0.3)
        made.step()
    fresh = build_engine(one.config, other.policy, 10)
    tensors, values = one.state()
    fresh.load_state({k: v.clone() for k, v in tensors.items()}, values)
    assert isinstance(fresh, SingleEngine)
    copied = [not torch.equal(w, p.float()) for w, p in zip(fresh.weights, fresh.parameters, strict=True)]  # fmt: skip
    assert any(copied) == (dtype == "bfloat16")
    for made in (one, fresh):
        give_gradients(made, -0.7)
        made.step()
    assert all(torch.equal(a, b) for a, b in zip(one.parameters, fresh.parameters, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(one.weights, fresh.weights, strict=True))


def test_epsilon_makes_steps_shrink_with_the_gradient() -> None:
    moved = {}
    for eps in (1e-8, 1.0):
        made = engine(eps=eps, max_grad_norm=None)
        before = made.parameters[0].detach().clone()
        give_gradients(made, 1e-3)
        made.step()
        moved[eps] = float((made.parameters[0].detach() - before).abs().max())
    assert moved[1e-8] == pytest.approx(1e-2, rel=1e-2)
    assert moved[1.0] == pytest.approx(1e-5, rel=1e-2)


def test_small_steps_of_bf16_weights_add_up() -> None:
    """Twenty steps of 1e-5 are 2e-4; one alone is below the last bit of most weights."""
    made, exact = engine("bfloat16", lr=1e-5), engine(lr=1e-5)
    lost = engine("bfloat16", lr=1e-5, master_weights=False)
    before = [p.detach().clone() for p in made.parameters]
    with torch.no_grad():
        for twin in exact, lost:
            for parameter, own in zip(twin.parameters, before, strict=True):
                parameter.copy_(own)
    for _ in range(20):
        for each in made, exact, lost:
            give_gradients(each, 1.0)
            each.step()
    for parameter, wanted in zip(made.parameters, exact.parameters, strict=True):
        assert parameter.dtype == torch.bfloat16
        assert torch.equal(parameter, wanted.bfloat16())
    large = before[0].abs() > 0.05
    assert bool((made.parameters[0] != before[0])[large].any())
    assert torch.equal(lost.parameters[0][large], before[0][large])


def test_gradients_of_micro_batches_are_summed_in_float32() -> None:
    """1 + 256 · 2⁻⁹ = 1.5; in bf16 each small one would be lost."""
    made = engine("bfloat16", max_grad_norm=None)
    give_gradients(made, 1.0)
    for _ in range(256):
        give_gradients(made, 2.0**-9)
    assert all(p.grad is None for p in made.parameters)
    gradients = [w.grad for w in made.weights]
    assert all(g is not None and bool((g == 1.5).all()) for g in gradients)


def test_every_rank_holds_all() -> None:
    half = WeightBytes(total=200, trained=200, embedding=0, base=200, half=200, sizes=(60, 40))
    model = replace(MODEL, element=2, weights=half)
    share = Single().rank_memory(UpdateConfig(), model, 8)
    assert share.held == {"weights": 200, "float32 copies": 400, "optimiser moments": 800}
    # What autograd gives in bfloat16 lies beside the sums in float32.
    assert share.gradients == GradientMemory(fresh=200, summed=400, in_place=False)
    assert share.step == {"gradients": 400}
    assert share.saving == {}  # of a CPU tensors are written as they are
    saved = Single().rank_memory(UpdateConfig(), replace(model, gpu=True), 8).saving
    assert saved == {"weights": 200, "float32 copies": 400, "optimiser moments": 800}
    plain = Single().rank_memory(UpdateConfig(master_weights=False), model, 8)
    assert plain.held == {"weights": 200, "float32 copies": 0, "optimiser moments": 400}
    assert plain.gradients == GradientMemory(fresh=200, summed=200, in_place=True)
