"""Single steps with other settings than the named estimators give them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.advantages.steps import step_of
from vlrft.advantages import Estimator, EstimatorInput, find_estimator
from vlrft.advantages.estimators.length import MuteTruncated
from vlrft.schema.errors import AdvantageError

NAN = float("nan")
SCORES = {"choice": [1.0, 0.0, NAN, NAN], "boxes/iou": [NAN, NAN, 0.5, 0.9], "speed": [9.0] * 4}
WEIGHTS = {"choice": 2.0, "boxes/iou": 0.5}


def run(steps: list[Any], inputs: EstimatorInput) -> list[float]:
    return [round(float(v), 9) for v in find_estimator(steps)(inputs).values]


def scored(**overrides: Any) -> EstimatorInput:
    scores = {k: np.array(v) for k, v in SCORES.items()}
    return step_of(
        [2.0, 0.0, 0.25, 0.45], [0, 0, 1, 1], scores=scores, weights=WEIGHTS, **overrides
    )


def test_combine_gives_the_weighted_sum_of_what_applies() -> None:
    assert run(["combine"], scored()) == [2.0, 0.0, 0.25, 0.45]
    other = [{"step": "combine", "weights": {"boxes": 1.0, "speed": 0.1}}]
    assert run(other, scored()) == [0.9, 0.9, 1.4, 1.8]


def test_a_component_that_does_not_exist_is_named() -> None:
    for step in (
        {"step": "combine", "weights": {"choise": 1}},
        {"step": "per_component", "keys": {"choise": "step"}},
    ):
        with pytest.raises(AdvantageError, match="'choise'; did you mean choice"):
            run([step], scored())


def test_the_environments_reward_may_be_weighted_in_a_step_without_any() -> None:
    steps = [{"step": "combine", "weights": {"environment": 1.0, "choice": 1.0}}]
    assert run(steps, scored()) == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"step": "gate", "of": "speed", "by": "environment"}, [2.0, 0.0, 0.25, 0.45]),
        ({"step": "gate", "of": "choice", "by": "environment"}, [0.0, 0.0, 0.25, 0.45]),
        ({"step": "times", "score": "environment"}, [2.0, 0.0, 0.25, 0.45]),
        ({"step": "worst_of", "names": ["environment", "speed"]}, [0.0] * 4),
        ({"step": "few_calls", "calls": "environment"}, [2.0, 0.0, 0.25, 0.45]),
    ],
    ids=str,
)
def test_an_environment_that_pays_nothing_in_a_step_is_a_component_of_zeros(
    step: dict[str, Any], expected: list[float]
) -> None:
    assert run([step], scored()) == expected


def test_a_component_that_has_only_parts_is_named() -> None:
    with pytest.raises(AdvantageError, match="'boxes' has only parts here; known: choice, boxes"):
        run([{"step": "times", "score": "boxes"}], scored())


def test_each_component_has_its_own_statistics_and_key() -> None:
    one = 0.5**0.5  # of two values, in their own standard deviations
    result = run([{"step": "per_component"}], scored())
    assert result == pytest.approx([2 * one, -2 * one, -0.5 * one, 0.5 * one], rel=1e-5)
    centred = run([{"step": "per_component", "scale": "none"}], scored())
    assert centred == pytest.approx([1.0, -1.0, -0.1, 0.1])
    format_ = {"format": np.array([1.0, 1.0, 0.0, 0.0])}
    by_step = [{"step": "per_component", "scale": "none", "keys": {"format": "step"}}]
    together = step_of([0] * 4, [0, 0, 1, 1], scores=format_, weights={"format": 1.0})
    assert run(by_step, together) == [0.5, 0.5, -0.5, -0.5]
    assert run([{"step": "per_component", "scale": "none"}], together) == [0.0] * 4


def test_a_component_that_applies_to_one_rollout_of_a_group_gives_nothing() -> None:
    inputs = step_of(
        [1, 0], [0, 0], scores={"choice": np.array([1.0, NAN])}, weights={"choice": 1.0}
    )
    assert run(["per_component"], inputs) == [0.0, 0.0]


@settings(deadline=None)
@given(st.integers(0, 14), st.integers(1, 10), st.sampled_from([0.5, 1.0, 2.0]))
def test_the_overlong_penalty_piece_by_piece(tokens: int, buffer: int, penalty: float) -> None:
    inputs = step_of([0.0], [0], turn_tokens=[tokens], max_tokens=10)
    free = 10 - buffer
    expected = 0.0 if tokens <= free else -1.0 if tokens >= 10 else (free - tokens) / buffer
    step = {"step": "overlong", "buffer": buffer, "penalty": penalty}
    assert run([step], inputs) == pytest.approx([penalty * expected], abs=1e-9)


def test_the_longest_turn_decides_the_overlong_penalty() -> None:
    inputs = step_of([0.0], [0], rollouts=[0, 0], turn_tokens=[6, 9], max_tokens=10)
    assert run([{"step": "overlong", "buffer": 4}], inputs) == [-0.75]


@pytest.mark.parametrize(("longest", "buffer", "message"), [(0, 2, "longest"), (4, 5, "no answer")])
def test_an_overlong_buffer_that_fits_no_length_is_an_error(
    longest: int, buffer: int, message: str
) -> None:
    inputs = step_of([0.0], [0], max_tokens=longest)
    with pytest.raises(AdvantageError, match=message):
        run([{"step": "overlong", "buffer": buffer}], inputs)


def test_truncated_answers_count_in_the_mean_and_get_zero() -> None:
    cut = np.array([False, True, False])
    inputs = step_of([1.0, 0.0, 0.5], [0, 0, 0], truncated=cut)
    assert run(["centre", "mute_truncated"], inputs) == [0.5, 0.0, 0.0]
    assert MuteTruncated()(inputs).values.tolist() == [1.0, 0.0, 0.5]


def test_steps_work_on_any_key_and_ties_on_it_are_exactly_zero() -> None:
    bundle = np.array([0, 1, 0, 1, 2, 2])
    tie = float(np.float32(0.9))
    inputs = step_of([tie, 0, tie, 1, tie, 0.9], [0, 0, 1, 1, 2, 2], keys={"bundle": bundle})
    for steps in (
        [{"step": "centre", "key": "bundle"}],
        [{"step": "leave_one_out", "key": "bundle"}],
        [{"step": "best_against_worst", "key": "bundle"}],
        [{"step": "centre", "key": "bundle"}, {"step": "scale", "key": "bundle"}],
        [{"step": "centre", "key": "bundle"}, {"step": "whiten", "key": "bundle"}],
    ):
        result = run(steps, inputs)
        assert [result[i] for i in (0, 2, 4, 5)] == [0.0] * 4
        assert result[3] == -result[1] > 0


def test_a_group_is_scaled_by_the_std_of_its_own_key() -> None:
    bundle = {"bundle": np.array([0, 0, 1, 1])}
    inputs = step_of([1.0, 0.0, 4.0, 0.0], [0, 1, 0, 1], keys=bundle)
    steps = [{"step": "centre", "key": "bundle"}, {"step": "scale", "key": "bundle"}]
    assert run(steps, inputs) == pytest.approx([0.5**0.5, -(0.5**0.5)] * 2, rel=1e-5)


def test_step_is_a_key() -> None:
    inputs = step_of([1.0, 0.0, 0.5, 0.5], [0, 0, 1, 1])
    assert run([{"step": "centre", "key": "step"}], inputs) == [0.5, -0.5, 0.0, 0.0]


def test_a_key_that_does_not_exist_is_named() -> None:
    inputs = step_of([1.0, 0.0], [0, 0], keys={"variant": np.array([0, 1])})
    with pytest.raises(
        AdvantageError, match=r"'varient'; did you mean variant.*sample, variant, step"
    ):
        run([{"step": "centre", "key": "varient"}], inputs)


def test_whitening_without_a_key_takes_rewards_as_they_are() -> None:
    inputs = step_of([1.0, 1.0, 0.0], [0, 0, 1])
    values = np.array([1.0, 1.0, 0.0])
    expected = (values - values.mean()) / values.std(ddof=1)
    result = run([{"step": "whiten", "key": None}], inputs)
    assert result == pytest.approx(expected.tolist(), rel=1e-5)
    assert run(["whiten"], inputs) == [0.0] * 3  # no group differs within itself
    assert run([{"step": "whiten", "key": None}], step_of([0.9, 0.9 + 1e-8], [0, 1])) == [0, 0]


def test_scaling_equal_values_by_the_step_leaves_them() -> None:
    assert run([{"step": "scale", "by": "step"}], step_of([2.0, 2.0], [0, 1])) == [2.0, 2.0]


def test_a_step_is_any_function() -> None:
    doubled = Estimator(
        name="mine", doc="Twice.", steps=(lambda p: replace(p, values=2 * p.values),)
    )
    assert doubled(step_of([1.0, 3.0], [0, 0])).values.tolist() == [2.0, 6.0]
    assert (doubled.min_group, doubled.greedy) == (1, False)


def test_the_smallest_group_depends_on_the_key() -> None:
    assert find_estimator([{"step": "centre"}]).min_group == 2
    assert find_estimator([{"step": "centre", "key": "bundle"}]).min_group == 1
    assert find_estimator(["combine", {"step": "scale", "by": "step"}]).min_group == 1
    assert find_estimator([{"step": "per_component", "key": "step"}]).min_group == 1
