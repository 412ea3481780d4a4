"""Every algorithm against its paper's formula, and the rules that hold for all of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.objectives.reference import EXTRAS, FROZEN, REFERENCES, Case, random_case
from vlrft.algorithms import ALGORITHMS, find_algorithm, policy_loss
from vlrft.objectives import make_loss_batch
from vlrft.objectives.find import OBJECTIVES
from vlrft.objectives.objective import GroupCoupled
from vlrft.schema import RewardError
from vlrft.schema.errors import NonFiniteError

METHODS = sorted(ALGORITHMS)
COMPARING = [  # they compare the answers of a group, and add no penalty
    name
    for name, algorithm in ALGORITHMS.items()
    if algorithm.estimator.min_group > 1 and not algorithm.needs.zero_signal_groups
]


def run(
    name: str,
    case: Case,
    *,
    pad: int = 0,
    fill: float = 0.0,
    order: list[int] | None = None,
    dtype: torch.dtype = torch.float64,
    **overrides: Any,
) -> tuple[Tensor, Tensor]:
    """Loss and gradient [B T] of the case, rows permuted, padded with `pad` columns of `fill`."""
    order = order or list(range(len(case.rewards)))
    width = max(map(len, case.logprobs), default=0) + pad

    def tensor(rows: list[list[float]], value: float) -> Tensor:
        return case.padded([rows[b] for b in order], width, value)

    logprobs = tensor(case.logprobs, fill).to(dtype).requires_grad_()
    lengths = torch.tensor([len(case.logprobs[b]) for b in order])
    extras = EXTRAS[name](case) if name in EXTRAS else {}
    by_row = {k: [v[b] for b in order] for k, v in extras.items() if isinstance(v, list)}
    overrides["extras"] = {**extras, **by_row, **overrides.get("extras", {})}
    result = policy_loss(
        name,
        logprobs=logprobs,
        rewards=[case.rewards[b] for b in order],
        group=[case.group[b] for b in order],
        mask=torch.arange(width)[None] < lengths[:, None],
        old_logprobs=tensor(case.old, fill),
        ref_logprobs=tensor(case.ref, fill),
        **overrides,
    )
    (gradient,) = torch.autograd.grad(result.loss, logprobs)
    back = torch.empty_like(gradient)
    back[order] = gradient
    return result.loss.detach(), back


def numeric_gradient(name: str, case: Case, step: float = 1e-6) -> Tensor:
    """Central differences of the slow reference, with the quantities that the algorithm detaches held at the point."""
    width = max(map(len, case.logprobs))
    out = torch.zeros(len(case.logprobs), width, dtype=torch.float64)
    for b, row in enumerate(case.logprobs):
        for t in range(len(row)):
            values = []
            for sign in (1, -1):
                moved = [list(r) for r in case.logprobs]
                moved[b][t] += sign * step
                other = Case(moved, case.rewards, case.group, case.old, case.ref)
                frozen = FROZEN.get(name)
                values.append(frozen(other, case) if frozen else REFERENCES[name](other))
            out[b, t] = (values[0] - values[1]) / (2 * step)
    return out


CASES = {
    0: random_case(0, sizes=[4, 3, 5, 2]),
    1: random_case(1, sizes=[4, 6, 5, 2], spread=1.5, levels=(0.0, 0.5, 1.0, 1.0)),
}


def assert_the_papers_formula(name: str, case: Case, **overrides: Any) -> None:
    """Value and gradient of the algorithm, with these overrides, equal its slow reference."""
    loss, gradient = run(name, case, **overrides)
    assert float(loss) == pytest.approx(REFERENCES[name](case), abs=1e-12)
    torch.testing.assert_close(gradient, numeric_gradient(name, case), atol=1e-8, rtol=1e-6)


def test_every_algorithm_has_a_reference() -> None:
    assert set(REFERENCES) == set(ALGORITHMS)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("seed", CASES)
def test_value_and_gradient_equal_the_papers_formula(name: str, seed: int) -> None:
    assert_the_papers_formula(name, CASES[seed])


@pytest.mark.parametrize("name", METHODS)
def test_order_and_padding_change_nothing(name: str) -> None:
    case = random_case(7, sizes=[3, 4, 2])
    loss, gradient = run(name, case)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0)).tolist()
    moved_loss, moved = run(name, case, order=order, pad=5)
    assert float(moved_loss) == pytest.approx(float(loss), abs=1e-12)
    torch.testing.assert_close(moved[:, : gradient.shape[1]], gradient, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("garbage", [float("nan"), float("-inf"), float("inf")])
def test_garbage_at_padding_has_exactly_no_gradient(name: str, garbage: float) -> None:
    case = random_case(3, sizes=[3, 3])
    _, clean = run(name, case, pad=2)
    loss, dirty = run(name, case, pad=2, fill=garbage)
    assert torch.isfinite(loss)
    assert torch.equal(dirty, clean)
    lengths = [len(row) for row in case.logprobs]
    assert all(bool((dirty[b, n:] == 0).all()) for b, n in enumerate(lengths))


@pytest.mark.parametrize("name", METHODS)
def test_float32_and_bfloat16_log_probs_agree(name: str) -> None:
    case = random_case(5, sizes=[4, 4])
    loss, gradient = run(name, case)
    loss32, gradient32 = run(name, case, dtype=torch.float32)
    assert gradient32.dtype == torch.float32
    torch.testing.assert_close(gradient32.double(), gradient, rtol=1e-5, atol=1e-7)
    assert float(loss32) == pytest.approx(float(loss), rel=1e-5, abs=1e-6)
    loss16, _ = run(name, case, dtype=torch.bfloat16)
    assert loss16.dtype == torch.float32
    assert float(loss16) == pytest.approx(float(loss), abs=0.05)


@pytest.mark.parametrize("name", COMPARING)
def test_equal_rewards_have_no_gradient(name: str) -> None:
    for rewards in ([0.9, 0.9, 0.9], [0.0] * 3, [1e-9, 0.0, 2e-9]):
        case = random_case(1, sizes=[3])
        flat = Case(case.logprobs, rewards, case.group, case.old, case.ref)
        loss, gradient = run(name, flat, extras={"length": 100})  # no answer is too long
        assert float(loss) == 0.0
        assert bool((gradient == 0).all())


@pytest.mark.parametrize("name", METHODS)
def test_empty_completions_count_as_rollouts(name: str) -> None:
    case = random_case(2, sizes=[3, 3])
    empty = Case(
        [[], *case.logprobs[1:]],
        case.rewards,
        case.group,
        [[], *case.old[1:]],
        [[], *case.ref[1:]],
    )
    loss, gradient = run(name, empty)
    assert float(loss) == pytest.approx(REFERENCES[name](empty), abs=1e-12)
    assert bool((gradient[0] == 0).all())


@pytest.mark.parametrize(
    "objective",
    [
        *OBJECTIVES,
        {"name": "covariance_weighted", "released": True},
        {"name": "disco", "length_temperature": 0.1},
        {"name": "gvpo", "reference": "initial"},
        {"name": "gmpo", "clip": "sequence"},
        {"name": "off_policy", "range": "sequence", "weight": "sequence"},
    ],
    ids=str,
)
def test_a_micro_batch_without_rows_has_the_loss_zero(objective: Any) -> None:
    """As a rank has it that runs a filler while others have rows."""
    algorithm = find_algorithm({"name": "gpg", "objective": objective})
    case = CASES[0]
    width = max(map(len, case.logprobs))
    whole = make_loss_batch(
        mask=torch.ones(len(case.group), width, dtype=torch.bool),
        advantages=torch.ones(len(case.group), width, dtype=torch.float64),
        group=torch.tensor(case.group),
        rollout=torch.arange(len(case.group)),
        valid=(True,) * 4,
        max_tokens=width,
        old_logprobs=case.padded(case.old, width, 0.0),
        ref_logprobs=case.padded(case.ref, width, 0.0),
    )
    batch = whole.rows(torch.tensor([], dtype=torch.long), 0)
    logprobs = torch.zeros(0, 0, dtype=torch.float64, requires_grad=True)
    if isinstance(algorithm.objective, GroupCoupled):
        stats = algorithm.objective.group_stats(logprobs.detach(), batch)
        assert all(values.shape == (0,) for values in stats.values())
    loss, _ = algorithm.loss(logprobs, batch)
    assert float(loss.detach()) == 0.0
    loss.backward()  # type: ignore[no-untyped-call]


def test_groups_without_spread_change_nothing_in_gpg() -> None:
    case = random_case(11, sizes=[3, 4])
    _, gradient = run("gpg", case)
    more = random_case(12, sizes=[3, 4, 6])
    joined = Case(
        case.logprobs + more.logprobs[7:],
        case.rewards + [0.5] * 6,
        case.group + [2] * 6,
        case.old + more.old[7:],
        case.ref + more.ref[7:],
    )
    _, with_flat = run("gpg", joined)
    torch.testing.assert_close(with_flat[:7, : gradient.shape[1]], gradient, atol=1e-12, rtol=0)


def test_a_constant_added_to_a_groups_rewards_changes_nothing() -> None:
    case = random_case(4, sizes=[4, 4])
    shifted = [r + (3.0 if g == 0 else -1.0) for r, g in zip(case.rewards, case.group, strict=True)]
    moved = Case(case.logprobs, shifted, case.group, case.old, case.ref)
    for name in ("gpg", "grpo", "gpg_rs_released"):
        torch.testing.assert_close(run(name, moved)[1], run(name, case)[1], atol=1e-12, rtol=1e-9)


def test_alpha_over_windows_counts_each_windows_own_groups() -> None:
    case = random_case(8, sizes=[2, 2, 2, 2])
    rewards = [0.0, 1.0, 0.5, 0.5, 1.0, 0.0, 0.0, 1.0]  # valid, not, valid, valid
    windowed = Case(case.logprobs, rewards, case.group, case.old, case.ref)
    _, plain = run("gpg", windowed, objective={"alpha": False})
    _, result = run("gpg", windowed, objective={"alpha_window": 2})
    torch.testing.assert_close(result[:4], 2 * plain[:4])
    torch.testing.assert_close(result[4:], plain[4:])


def test_gpg_counts_groups_of_equal_rewards_that_an_advantage_teaches() -> None:
    logprobs = torch.full((4, 1), -1.0, requires_grad=True)
    result = policy_loss(
        "gpg",
        logprobs=logprobs,
        rewards=torch.ones(4),
        group=[0, 0, 1, 1],
        mask=torch.ones(4, 1, dtype=torch.bool),
        advantages=torch.tensor([0.5, 0.5, 0.0, 0.0]),
    )
    assert result.metrics["alpha"] == 2.0  # one of two groups
    (gradient,) = torch.autograd.grad(result.loss, logprobs)
    assert gradient[:, 0].tolist() == [
        -0.25,
        -0.25,
        0.0,
        0.0,
    ]  # alpha / 2 groups, mean over 2 tokens


def test_large_log_ratios_stay_finite() -> None:
    case = random_case(6, sizes=[4], spread=2000.0)
    loss, gradient = run("grpo", case)
    assert bool(torch.isfinite(loss))
    assert bool(torch.isfinite(gradient).all())


ALONE_IS_AN_ERROR = ("gvpo", "rloo")


@pytest.mark.parametrize("name", METHODS)
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_any_ragged_step_is_finite_and_equals_the_reference(name: str, data: st.DataObject) -> None:
    """Groups of 1 to 16, completions of 0 to 64 tokens, rewards with ties, ratios from tame to absurd."""
    least = 2 if name in ALONE_IS_AN_ERROR else 1
    sizes = data.draw(st.lists(st.integers(least, 16), min_size=1, max_size=3))
    count = sum(sizes)
    short, long = st.integers(0, 6), st.integers(0, 64)
    lengths = data.draw(st.lists(st.one_of(short, long), min_size=count, max_size=count))
    near = data.draw(st.sampled_from([0.0, 0.3, 80.0]))
    tie = float(torch.tensor(0.9))  # a float32 tie
    rewards = data.draw(
        st.lists(st.sampled_from([0.0, 0.1, 0.9, tie, 1.0]), min_size=count, max_size=count)
    )
    seeded = torch.Generator().manual_seed(data.draw(st.integers(0, 999)))

    def row(n: int, centre: float) -> list[float]:
        return (centre * torch.rand(n, generator=seeded, dtype=torch.float64) - 0.01).tolist()

    logprobs = [row(n, -3.0) for n in lengths]
    moved = [
        [v + near * u for v, u in zip(row_logprobs, row(len(row_logprobs), 2.0), strict=True)]
        for row_logprobs in logprobs
    ]
    group = [k for k, n in enumerate(sizes) for _ in range(n)]
    case = Case(logprobs, rewards, group, moved, moved)
    loss, gradient = run(name, case, pad=1, extras={"length": 64})
    assert bool(torch.isfinite(gradient).all())
    assert all(bool((gradient[b, n:] == 0).all()) for b, n in enumerate(lengths))
    if near < 1:
        assert float(loss) == pytest.approx(REFERENCES[name](case), abs=1e-9, rel=1e-9)


def test_invalid_inputs_are_named_in_the_error() -> None:
    case = random_case(0, sizes=[3])
    broken = Case(
        [[float("nan")], *case.logprobs[1:]],
        case.rewards,
        case.group,
        [[0.0], *case.old[1:]],
        [[0.0], *case.ref[1:]],
    )
    with pytest.raises(NonFiniteError, match=r"rows \[0\]"):
        run("gpg", broken)
    rewarded = Case(case.logprobs, [float("inf"), 0.0, 1.0], case.group, case.old, case.ref)
    with pytest.raises(RewardError, match="rows"):
        run("gpg", rewarded)
    mask = torch.ones(2, 3, dtype=torch.bool)
    plain: dict[str, Any] = {
        "logprobs": torch.zeros(2, 3),
        "rewards": [0.0, 1.0],
        "group": [0, 0],
        "mask": mask,
    }
    with pytest.raises(ValueError, match="old_logprobs"):
        policy_loss("grpo", **plain)
    with pytest.raises(ValueError, match="length"):
        policy_loss("gpg", **plain, reduction="constant")
    with pytest.raises(ValueError, match="did you mean gpg"):
        policy_loss("gpgg", **plain)


def test_overrides_use_the_configs_keys() -> None:
    case = random_case(9, sizes=[4, 4])
    plain = run(
        "grpo", case, objective={"clip_low": 10.0, "clip_high": 10.0}, regularize={"kl": 0.0}
    )[0]
    weighted = run(
        "grpo", case, objective={"clip_low": 10.0, "clip_high": 10.0}, regularize={"kl": 0.5}
    )[0]
    assert float(weighted) > float(plain)
    by_token = run(
        "gpg",
        case,
        reduction="token",
        advantage="standardised",
        objective={"alpha": False},
    )
    torch.testing.assert_close(by_token[1], run("gpg_rs_released", case)[1])
    constant = run("gpg", case, reduction="constant", extras={"length": 100})[1]
    twice = run("gpg", case, reduction="constant", extras={"length": 200})[1]
    torch.testing.assert_close(constant, 2 * twice)
