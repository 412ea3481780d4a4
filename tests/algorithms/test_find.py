"""Overrides and schedules of an algorithm, and how algorithms are found."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from vlrft.advantages.estimators.components import Combine
from vlrft.advantages.estimators.length import Overlong
from vlrft.algorithms import ALGORITHMS, find_algorithm, methods, override
from vlrft.algorithms.algorithm import Schedule
from vlrft.algorithms.methods import load_algorithms
from vlrft.objectives.clipped_ratio import ClippedRatio
from vlrft.schema.errors import ConfigError
from vlrft.selection.rollout_filters import Cppo, Pods


def test_a_setting_may_change_over_the_stage() -> None:
    scheduled = find_algorithm(
        {
            "name": "grpo",
            "regularize": {"kl": {"from": 0.0, "to": 0.2, "share": 0.5}, "entropy": 0.01},
            "objective": {"clip_high": {"from": 0.4, "to": 0.2, "shape": "cosine"}},
        }
    )
    kl = [scheduled.at(done).regularize.kl for done in (0.0, 0.25, 0.5, 1.0)]
    assert kl == pytest.approx([0.0, 0.1, 0.2, 0.2])
    assert scheduled.at(0.5).regularize.entropy == 0.01
    clip = [
        cast(ClippedRatio, scheduled.at(done).objective).clip_high for done in (0.0, 0.25, 0.5, 1.0)
    ]
    assert clip == pytest.approx([0.4, 0.3 + 0.1 * 0.5**0.5, 0.3, 0.2])


def test_the_needs_of_both_ends_of_a_schedule_hold_all_along() -> None:
    rising = find_algorithm({"name": "gpg", "regularize": {"kl": {"from": 0.0, "to": 0.1}}})
    assert rising.regularize.kl == 0.0
    assert rising.needs.ref_logprobs
    assert rising.at(0.0).needs.ref_logprobs
    assert not ALGORITHMS["gpg"].needs.ref_logprobs


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"regularize": {"kll": 1}}, "algorithm.regularize.kll: unknown key; did you mean kl?"),
        (
            {"regularize": {"kl": -1}},
            "algorithm.regularize.kl: -1 is out of range; allowed: at least 0",
        ),
        (
            {"regularize": {"kl": {"from": 0.1, "to": -0.1}}},
            "algorithm.regularize.kl: -0.1 is out of range; allowed: at least 0",
        ),
        ({"regularize": {"kl": {"from": 0.1}}}, "algorithm.regularize.kl.to: missing"),
        ({"regularize": 3}, "algorithm.regularize: expected a mapping of kl, "),
        (
            {"objective": {"clip": 1}},
            "algorithm.objective.clip: unknown key; did you mean clip_low?",
        ),
        ({"reduction": "mean"}, "algorithm.reduction: unknown name 'mean'; known: sequence, "),
        ({"speed": 1}, "algorithm.speed: unknown key; allowed: advantage, reduction, objective"),
    ],
)
def test_mistakes_are_reported_under_their_key(changes: dict[str, object], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_algorithm({"name": "grpo", **changes})
    assert any(line in mistake for mistake in caught.value.mistakes), caught.value.mistakes


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        find_algorithm({"name": "grpo", "regularize": {"kl": -1}, "reduction": "mean", "speed": 1})
    assert len(caught.value.mistakes) == 3


def test_a_schedule_stays_at_its_end() -> None:
    schedule = Schedule(**{"from": 1.0, "to": 3.0, "share": 0.25})  # type: ignore[arg-type]
    assert [schedule.at(x) for x in (0.0, 0.125, 0.25, 0.9)] == [1.0, 2.0, 3.0, 3.0]


def test_an_algorithms_file_is_found_and_a_name_is_used_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "import dataclasses\nfrom vlrft.algorithms.methods.sft import ALGORITHMS as OTHERS\n"
        "ALGORITHMS = (dataclasses.replace(OTHERS[0], name='{}'),)\n"
    )
    (tmp_path / "zzz_new.py").write_text(text.format("brand_new"))
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    assert "brand_new" in load_algorithms()
    (tmp_path / "zzz_twice.py").write_text(text.format("gpg"))
    with pytest.raises(ValueError, match=r"zzz_twice\.py: another file has 'gpg' already"):
        load_algorithms()


def test_a_constant_takes_the_place_of_an_algorithms_own_schedule() -> None:
    falling = {"from": 0.1, "to": 0.05}
    made = find_algorithm({"name": "grpo", "regularize": {"kl": falling, "entropy": falling}})
    changed = override(made, {"regularize": {"kl": 0.0}})
    assert [changed.at(done).regularize.kl for done in (0.0, 1.0)] == [0.0, 0.0]
    assert set(changed.schedules) == {"regularize.entropy"}
    assert not changed.needs.ref_logprobs
    clip = find_algorithm({"name": "grpo", "objective": {"clip_high": falling}})
    constant = override(clip, {"objective": {"clip_high": 0.3}}).at(0.5).objective
    assert cast(ClippedRatio, constant).clip_high == 0.3


def test_schedules_reach_the_steps_of_an_advantage_and_its_component_weights() -> None:
    ramp = {"from": 1.0, "to": 0.5}
    steps = [
        {"step": "combine", "weights": {"format.strict": ramp, "choice": 2.0}},
        "centre",
        {"step": "overlong", "penalty": {"from": 0.0, "to": 1.0, "shape": "cosine"}},
    ]
    algorithm = find_algorithm(
        {"name": "grpo", "advantage": steps, "objective": {"clip_low": ramp}}
    )
    assert set(algorithm.schedules) == {
        "objective.clip_low",
        "advantage.0.weights.format.strict",
        "advantage.2.penalty",
    }
    combine, _, overlong = algorithm.at(1.0).estimator.steps
    assert (combine, overlong) == (
        Combine(weights={"format.strict": 0.5, "choice": 2.0}),
        Overlong(penalty=1.0),
    )
    assert algorithm.estimator == algorithm.at(0.0).estimator
    assert set(override(algorithm, {"advantage": "centred"}).schedules) == {"objective.clip_low"}


def test_a_list_of_steps_without_schedules_is_kept_as_it_is() -> None:
    steps = [{"step": "centre", "key": "step"}, "scale"]
    algorithm = find_algorithm({"name": "grpo", "advantage": steps})
    assert algorithm.advantage == steps
    assert algorithm.at(0.3).advantage == steps
    assert not algorithm.schedules


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        (
            [{"step": "overlong", "penalty": {"from": 0.0, "to": -1.0}}],
            "algorithm.advantage.0.penalty: -1.0 is out of range",
        ),
        (
            [{"step": "overlong", "penalty": {"from": 0.0}}],
            "algorithm.advantage.0.penalty.to: ",
        ),
    ],
)
def test_both_ends_of_a_steps_schedule_are_checked(steps: list[object], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_algorithm({"name": "grpo", "advantage": steps})
    assert any(line in mistake for mistake in caught.value.mistakes), caught.value.mistakes


def test_select_is_a_rule_or_a_list_of_rules() -> None:
    chain = find_algorithm({"name": "grpo", "select": [{"name": "pods", "keep": 2}, "cppo"]}).select
    assert chain == (Pods(keep=2), Cppo())
    assert find_algorithm({"name": "grpo", "select": []}).select is None
    with pytest.raises(ConfigError, match=r"select: pods selects before .* put pods before cppo"):
        find_algorithm({"name": "grpo", "select": ["cppo", "pods"]})
    with pytest.raises(ConfigError) as caught:
        find_algorithm({"name": "grpo", "select": ["ppods", {"name": "pods", "keep": 0}]})
    assert [m.split(":")[0] for m in caught.value.mistakes] == [
        "algorithm.select.0",
        "algorithm.select.1.keep",
    ]


def test_settings_of_a_selector_need_its_name_where_there_are_several() -> None:
    chain = find_algorithm({"name": "grpo", "select": ["positives", "cppo"]})
    with pytest.raises(ConfigError) as caught:
        override(chain, {"select": {"share": 0.3}})
    assert caught.value.mistakes == [
        "algorithm.select: needs a `name`; known: cppo, pods, gfpo, positives, drop_truncated"
    ]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"name": "gvpo", "objective": {"var": {"from": 0, "to": 1}}},
            "algorithm.objective.var: expected true or false, got 0.5",
        ),
        (
            {
                "name": "gpg",
                "advantage": ["centre", {"step": "add_step", "scale": {"from": 0, "to": 1}}],
            },
            "algorithm.advantage.1.scale: expected true or false, got 0.5",
        ),
        (
            {"name": "grpo", "reference": {"update": "ema", "decay": {"from": 0.9, "to": 0.99}}},
            "algorithm.reference.decay: a schedule has no effect on the reference; give a number",
        ),
    ],
)
def test_a_schedule_that_could_not_be_followed_is_refused(
    changes: dict[str, object], line: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        find_algorithm(changes)
    assert caught.value.mistakes == [line]
