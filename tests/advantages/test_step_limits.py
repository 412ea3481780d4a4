"""Steps of published methods at the settings and rewards where they are another method, or where their papers say what
they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.advantages.steps import step_of
from vlrft.advantages import EstimatorInput, estimate_advantages, find_estimator
from vlrft.schema.errors import AdvantageError, ConfigError

MIXED = [1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0]
GROUP = [0, 0, 0, 0, 1, 1, 1, 2, 2]


def values(steps: Sequence[Any], inputs: EstimatorInput) -> np.ndarray:
    return find_estimator(list(steps)).__call__(inputs).values


def assert_equal(one: Any, other: Any) -> None:
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


GRPO = ["centre", "scale"]
MIXED_STEP = step_of(MIXED, GROUP)


def test_mapo_is_grpo_where_half_of_the_answers_are_right() -> None:
    assert_equal(values(["mixed_deviation"], MIXED_STEP)[:4], values(GRPO, MIXED_STEP)[:4])
    nearly = step_of([0.0] + [1.0] * 99, [0] * 100)
    by_mean = (nearly.values - 0.99) / 0.99
    np.testing.assert_allclose(values(["mixed_deviation"], nearly)[1:], by_mean[1:], atol=5e-3)
    assert not values(["mixed_deviation"], step_of([-0.5, -0.5, 0.0], [0, 0, 1])).any()


def test_a_least_deviation_keeps_small_differences_small() -> None:
    inputs = step_of([10.0, 0.0, 0.1, 0.0], [0, 0, 1, 1])  # a win, and a penalty alone
    unlimited = values(["centre", "scale"], inputs)
    limited = values(["centre", {"step": "scale", "least": 1.0}], inputs)
    np.testing.assert_allclose(np.abs(unlimited), np.sqrt(0.5), rtol=1e-4)
    assert_equal(limited[:2], unlimited[:2])
    np.testing.assert_allclose(limited[2:], [0.05, -0.05], rtol=1e-5)
    with pytest.raises(ConfigError, match=r"least: 1\.0 has no effect with by: step"):
        find_estimator([{"step": "scale", "by": "step", "least": 1.0}])


def test_mapo_is_finite_where_the_mean_is_near_zero_or_negative() -> None:
    gaps = values(["mixed_deviation"], step_of([-1.0, 0.5, 0.5], [0, 0, 0]))
    assert not gaps.any()  # p = 0 and μ = 0: neither term
    assert np.isfinite(values(["mixed_deviation"], step_of([-1.0, 1.0, 0.0], [0, 0, 0]))).all()


def test_bnpo_of_one_group_is_centred_and_of_a_middling_spread_is_grpo_with_the_populations_std() -> (
    None
):
    one = step_of(MIXED[:4], GROUP[:4])
    assert_equal(values(["beta_normalise"], one), values(["centre"], one))
    p = [0.25, 0.5, 0.75, 0.5]  # a = b = 3/2 · … : both shape parameters are equal
    rewards = [r for share in p for r in [1.0] * int(8 * share) + [0.0] * int(8 * (1 - share))]
    inputs = step_of(rewards, np.repeat(range(4), 8))
    spread = np.var(p, ddof=1)
    size = 1 + (0.25 / spread - 1) / 6  # α = β
    shaped = values(["beta_normalise"], inputs)
    std = np.repeat([np.sqrt(q * (1 - q)) for q in p], 8)
    powers = std ** (2 * (size - 1))
    assert_equal(np.ptp(shaped * powers / values(["centre"], inputs)), 0.0)


def test_bnpo_refuses_rewards_outside_of_its_range() -> None:
    with pytest.raises(AdvantageError, match="rewards from -1 to 1, but low and high are 0 and 1"):
        values(["beta_normalise"], step_of([-1.0, 1.0], [0, 0]))
    with pytest.raises(ConfigError, match="must be above"):
        find_estimator([{"step": "beta_normalise", "low": 2.0}])
    mapped = values([{"step": "beta_normalise", "low": -1.0}], step_of([-1.0, 1.0], [0, 0]))
    assert_equal(mapped, values(["beta_normalise"], step_of([0.0, 1.0], [0, 0])))


def test_ngrpo_teaches_groups_that_are_all_wrong_and_not_those_that_are_all_right() -> None:
    wrong, right = values(
        ["virtual_best"], step_of([0.0] * 4 + [1.0] * 4, [0] * 4 + [1] * 4)
    ).reshape(2, 4)
    np.testing.assert_allclose(wrong, -1 / 5**0.5, rtol=5e-6)
    assert (right == 0).all()
    assert values(["virtual_best"], MIXED_STEP)[:4].sum() < 0
    assert find_estimator(["virtual_best"]).min_group == 1


def test_s_grpo_without_noise_is_grpo_and_unbalanced_groups_are_noise() -> None:
    free = [{"step": "noise_aware", "flip": 0.0}]
    assert_equal(values(free, MIXED_STEP), values(GRPO, MIXED_STEP))
    lone = step_of([1.0] + [0.0] * 9 + [0.0] + [1.0] * 9, [0] * 10 + [1] * 10)
    assert not values([{"step": "noise_aware", "flip": 0.1}], lone).any()
    mild = values([{"step": "noise_aware", "flip": 0.05}], lone)
    assert_equal(mild[:10], -mild[10:])  # symmetric in r̄ and 1 − r̄


@pytest.mark.parametrize("truth", [0.0, 1.0])
def test_denoised_rewards_are_right_in_expectation(truth: float) -> None:
    fp, fn = 0.1, 0.3
    seen = 1 - fn if truth else fp  # chance that the verifier says 1
    rates = {"false_positive": fp, "false_negative": fn}
    zero, one = values([{"step": "denoise", **rates}], step_of([0.0, 1.0], [0, 0]))
    assert_equal(seen * one + (1 - seen) * zero, truth)
    wrong, right = values(
        [{"step": "forward_noise", "false_negative": fn}], step_of([0.0, 1.0], [0, 0])
    )
    assert_equal(seen * right + (1 - seen) * wrong, (1 - fp - fn) * (truth - 1))


def test_a_correction_of_the_rewards_scale_vanishes_behind_a_standard_deviation() -> None:
    step = {"step": "denoise", "false_positive": 0.1, "false_negative": 0.3}
    np.testing.assert_allclose(
        values([step, *GRPO], MIXED_STEP), values(GRPO, MIXED_STEP), rtol=1e-5
    )
    assert_equal(values([{"step": "denoise"}, *GRPO], MIXED_STEP), values(GRPO, MIXED_STEP))
    with pytest.raises(ConfigError, match="less than 1"):
        find_estimator([{"step": "denoise", "false_positive": 0.5, "false_negative": 0.5}])


def test_lead_without_length_and_weights_is_grpo_on_plus_and_minus_one() -> None:
    signed = step_of([2 * r - 1 for r in MIXED], GROUP)
    plain = [{"step": "lead", "alpha": 0.0, "low": 1.0, "gain": 0.0}]
    assert_equal(values(plain, MIXED_STEP), values(GRPO, signed))


def test_lead_prefers_short_right_answers_where_all_are_long_and_hard_prompts() -> None:
    lengths = [5000, 6000, 7000, 8000]
    flat_weights = {"step": "lead", "low": 1.0, "gain": 0.0}
    long = values([flat_weights], step_of([1.0, 1.0, 1.0, 0.0], [0] * 4, turn_tokens=lengths))
    assert long[0] > long[1] > long[2] > 0 > long[3]
    short = values([flat_weights], step_of([1.0, 1.0, 1.0, 0.0], [0] * 4, turn_tokens=[9, 8, 7, 5]))
    assert short[0] == short[1] == short[2]
    hard = values(["lead"], step_of([1.0, 0.0, 0.0, 0.0], [0] * 4))
    easy = values(["lead"], step_of([1.0, 1.0, 1.0, 0.0], [0] * 4))
    assert hard[0] / values(GRPO, step_of([1.0, 0, 0, 0], [0] * 4))[0] > 1.4  # w(¼)
    np.testing.assert_allclose(
        easy[0] / values(GRPO, step_of([1.0, 1, 1, 0], [0] * 4))[0], 0.95, rtol=1e-5
    )


def test_length_counts_only_where_every_answer_is_right() -> None:
    tokens = [3, 5, 7, 3, 5, 7]
    inputs = step_of(
        [1.0, 1.0, 0.0, 1.0, 1.0, 1.0], [0, 0, 0, 1, 1, 1], turn_tokens=tokens, max_tokens=10
    )
    shaped = values(["shorter_when_right", *GRPO], inputs)
    assert_equal(shaped[:3], values(GRPO, inputs)[:3])
    assert shaped[3] > shaped[4] > shaped[5]
    with pytest.raises(AdvantageError, match="longest completion"):
        values(["shorter_when_right"], MIXED_STEP)


def scored(right: list[float], style: list[float]) -> EstimatorInput:
    scores = {"right": np.array(right), "style": np.array(style)}
    return step_of(
        [0.0] * len(right), [0] * len(right), scores=scores, weights={"right": 1.0, "style": 0.5}
    )


def test_a_gate_that_is_always_open_is_combine_and_one_that_is_shut_takes_its_component_away() -> (
    None
):
    inputs = scored([1.0, 0.0, 0.5], [0.3, 0.6, 0.9])
    gate = {"step": "gate", "of": "style", "by": "right"}
    assert_equal(values([{**gate, "at": -1.0}], inputs), values(["combine"], inputs))
    without = [{"step": "combine", "weights": {"right": 1.0}}]
    assert_equal(values([{**gate, "at": 2.0}], inputs), values(without, inputs))
    both = {"step": "gate", "of": "right", "by": "style", "at": 0.5, "weights": {"right": 1.0}}
    assert_equal(values([both], inputs), [0.0, 0.0, 0.5])
    with pytest.raises(AdvantageError, match="'rigth'; did you mean right"):
        values([{**gate, "by": "rigth"}], inputs)


def test_an_ensemble_of_equal_members_is_any_of_them() -> None:
    inputs = scored([1.0, 0.0, 0.5], [1.0, 0.0, 0.5])
    for step in ("worst_of", "mean_minus_variance"):
        assert_equal(values([{"step": step, "names": ["style", "right"]}], inputs), [1.0, 0.0, 0.5])
    nothing = scored([float("nan")], [float("nan")])
    with pytest.raises(AdvantageError, match="none of right, style applies to rollout 0"):
        values([{"step": "worst_of", "names": ["right", "style"]}], nothing)


def test_few_calls_pays_most_for_the_fewest_calls_of_a_right_answer() -> None:
    calls = {"calls": np.array([2.0, 1.0, 4.0, 3.0, 0.0])}
    inputs = step_of([1.0, 0.0, 1.0, 1.0, 0.0], [0] * 5, scores=calls)
    paid = values(["few_calls"], inputs)
    assert paid[0] == 1.0 > paid[3] > paid[2] > 0.0
    assert paid[1] == paid[4] == 0.0
    none = step_of([1.0, 1.0, 1.0], [0] * 3, scores={"calls": np.array([0.0, 1.0, 2.0])})
    assert_equal(values(["few_calls"], none), np.cos(np.array([0, 1 / 4, 1 / 3]) * np.pi))
    wrong = step_of([0.5, 0.0], [0, 0], scores={"calls": np.array([1.0, 2.0])})
    assert_equal(values(["few_calls"], wrong), [0.5, 0.0])  # no right answer to compare with
    with pytest.raises(AdvantageError, match="for every rollout"):
        values(["few_calls"], step_of([1.0], [0], scores={"calls": np.array([np.nan])}))


def episodes(tool: list[float]) -> EstimatorInput:
    """Three rollouts of two turns and one of a single turn."""
    scores = {"answer": np.array([1.0, 0.0, 1.0, 0.0]), "tool": np.array(tool)}
    return step_of(
        [0.0] * 4,
        [0] * 4,
        rollouts=[0, 0, 1, 1, 2, 2, 3],
        places=np.array([0, 1, 0, 1, 0, 1, 0]),
        turn_tokens=[2, 1, 1, 1, 1, 1, 3],
        scores=scores,
        weights={"answer": 1.0, "tool": 0.5},
    )


def by_turn(steps: list[Any], inputs: EstimatorInput) -> list[float]:
    return [float(turn[0]) for turn in estimate_advantages(inputs, find_estimator(steps))]


def test_the_first_turn_gets_its_own_reward_and_later_turns_do_not() -> None:
    inputs = episodes([1.0, 0.0, 0.0, 1.0])
    answer = values([{"step": "combine", "weights": {"answer": 1.0}}, *GRPO], inputs)
    tool = values([{"step": "combine", "weights": {"tool": 0.5}}, *GRPO], inputs)
    both = values(["combine", *GRPO], inputs)
    step: dict[str, Any] = {"step": "first_turns", "turn": ["tool"], "coefficient": 0.7}
    expected = [v for i in range(3) for v in (answer[i] + 0.7 * tool[i], answer[i])]
    assert_equal(by_turn([step], inputs), [*expected, both[3]])
    later = by_turn([step], episodes([0.0, 1.0, 1.0, 0.0]))
    assert_equal(later[1:6:2], expected[1::2])


def test_without_a_coefficient_or_with_equal_turn_rewards_the_outcome_alone_counts() -> None:
    outcome = {"step": "combine", "weights": {"answer": 1.0}}
    inputs = episodes([1.0, 0.0, 0.0, 1.0])
    step: dict[str, Any] = {"step": "first_turns", "turn": ["tool"]}
    expected = by_turn([outcome, *GRPO], inputs)
    assert_equal(by_turn([{**step, "coefficient": 0.0}], inputs)[:6], expected[:6])
    assert_equal(by_turn([step], episodes([0.5] * 4)), expected)


def test_a_factor_that_is_equal_in_a_group_acts_after_scale_and_cancels_before_it() -> None:
    scores = {"entropy": np.array([0.0] * 4 + [0.5] * 5)}
    inputs = step_of(MIXED, [0] * 4 + [1] * 5, scores=scores)
    plain = values(GRPO, inputs)
    step = {"step": "times", "score": "entropy"}
    after = values([*GRPO, step], inputs)
    assert_equal(after[:4], plain[:4])  # one cluster of answers
    assert_equal(after[4:], 0.5 * plain[4:])
    np.testing.assert_allclose(values(["centre", step, "scale"], inputs), plain, rtol=1e-5)
    fast = values([*GRPO, {**step, "shape": "exponential", "alpha": 2.0}], inputs)
    assert_equal(fast[4:], np.exp(-1.0) * plain[4:])


def test_asymre_without_a_shift_is_centred_and_with_one_teaches_equal_rewards() -> None:
    assert_equal(
        values(["centre", {"step": "shift", "by": 0.0}], MIXED_STEP), values(["centre"], MIXED_STEP)
    )
    assert_equal(values(["centre", "shift"], step_of([1.0, 1.0], [0, 0])), [0.1, 0.1])


def test_the_log_mean_exp_is_the_mean_for_a_large_and_the_maximum_for_a_small_temperature() -> None:
    def baseline(tau: float) -> np.ndarray:
        step = {"step": "log_mean_exp", "temperature": tau}
        return MIXED_STEP.values - (1 + tau) * values([step], MIXED_STEP)

    means = MIXED_STEP.values - values(["centre"], MIXED_STEP)
    np.testing.assert_allclose(baseline(1e5), means, atol=1e-5)
    np.testing.assert_allclose(baseline(1e-4), 1.0, atol=1e-3)


def test_right_and_wrong_are_marked_in_mixed_groups_alone() -> None:
    inputs = step_of([1.0, 0.0, 0.5, 1.0, 0.5, 0.0, 0.0], [0, 0, 0, 1, 1, 2, 2])
    assert values(["right_or_wrong"], inputs).tolist() == [1, -1, 0, 0, 0, 0, 0]
    half = values([{"step": "right_or_wrong", "right": 0.5}], inputs)
    assert half.tolist() == [1, -1, 1, 0, 0, 0, 0]
    with pytest.raises(ConfigError, match="must be above"):
        find_estimator([{"step": "right_or_wrong", "right": 0.0}])
