"""Settings that have no effect beside others are refused, in one line that says with what they have one."""

from __future__ import annotations

import pytest

from vlrft.algorithms import ALGORITHMS, find_algorithm
from vlrft.objectives.gmpo import Gmpo
from vlrft.schema.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "changes", "line"),
    [
        (
            "disco",
            {"objective": {"wrong": "mean", "tau": 2}},
            "algorithm.objective: tau: 2.0 has no effect with wrong: mean; leave it out, or use wrong: log_mean_exp",
        ),
        (
            "gmpo",
            {"objective": {"clip": "none", "clip_low": 0.3, "clip_high": 0.1}},
            "algorithm.objective: clip_low: 0.3 and clip_high: 0.1 have no effect with clip: none; leave them out, or use "
            "clip: token or sequence",
        ),
        (
            "gmpo",
            {"objective": {"clip": "none", "clip_low": {"from": 0.3, "to": 0.2}}},
            "clip_low: 0.3 has no effect with clip: none",
        ),
        (
            "gpg",
            {"objective": {"alpha": False, "alpha_window": 2}},
            "alpha_window: 2 has no effect with alpha: false; leave it out, or use alpha: true",
        ),
        (
            "rec",
            {"objective": {"range": "none", "clip_low": 0.1}},
            "clip_low: 0.1 has no effect with range: none; leave it out, or use another range",
        ),
        (
            "rec",
            {"objective": {"far_low": 0.1}},
            "far_low: 0.1 has no effect with range: one_side and weight: one; leave it out, or use range: ring or weight: "
            "truncated",
        ),
        (
            "rec",
            {"objective": {"temperature": 3.0}},
            "temperature: 3.0 has no effect with weight: one; leave it out, or use weight: advantage",
        ),
        (
            "grpo",
            {"reference": {"decay": 0.5}},
            "algorithm.reference: decay: 0.5 has no effect with update: never; leave it out, or use update: ema",
        ),
        (
            "grpo",
            {"reference": {"every": 5}},
            "every: 5 has no effect with update: never; leave it out, or use update: reset",
        ),
        (
            "grpo",
            {"reference": {"update": "reset", "decay": 0.5}},
            "decay: 0.5 has no effect with update: reset",
        ),
        (
            "grpo",
            {"reference": {"update": "ema", "every": 5}},
            "every: 5 has no effect with update: ema",
        ),
        (
            "grpo",
            {"inject": {"name": "gold", "when": "always", "right": 0.5}},
            "algorithm.inject: right: 0.5 has no effect with when: always; leave it out, or use when: all_wrong",
        ),
        (
            "grpo",
            {"replay": {"name": "fifo", "add": 32}},
            "algorithm.replay: add: 32, but capacity: 16 is all that is stored of a prompt; use at most 16, or a larger "
            "capacity",
        ),
        (
            "grpo",
            {"advantage": ["centre", {"step": "scale", "by": "step", "key": "kind"}]},
            "algorithm.advantage.1: key: kind has no effect with by: step; leave it out, or use by: group",
        ),
        (
            "grpo",
            {"regularize": {"kl": 0.0, "kl_estimator": "k2"}},
            "algorithm.regularize.kl_estimator: k2 has no effect, as grpo has no KL penalty with kl: 0; give a kl above 0, or "
            "leave it out",
        ),
        (
            "gpg",
            {"regularize": {"kl": {"from": 0.0, "to": 0.0}, "kl_estimator": "k1"}},
            "algorithm.regularize.kl_estimator: k1 has no effect, as gpg has no KL penalty",
        ),
    ],
)
def test_a_setting_without_effect_is_refused(
    name: str, changes: dict[str, object], line: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        find_algorithm({"name": name, **changes})
    assert any(line in mistake for mistake in caught.value.mistakes), caught.value.mistakes


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("disco", {"objective": {"tau": 2.0}}),
        ("disco", {"objective": {"wrong": "mean", "tau": None}}),
        ("gmpo", {"objective": {"clip": "none"}}),
        ("gmpo", {"objective": {"clip": "none", "clip_low": 0.4}}),  # its default says nothing
        ("rec", {"objective": {"range": "ring", "far_low": 0.1}}),
        ("rec", {"objective": {"weight": "truncated", "far_high": 1.0}}),
        ("rec", {"objective": {"range": "none", "weight": "advantage", "temperature": 3.0}}),
        ("gpg", {"regularize": {"kl": {"from": 0.0, "to": 0.1}, "kl_estimator": "k2"}}),
        ("gpg", {"regularize": {"kl": {"from": 0.1, "to": 0.0}, "kl_estimator": "k2"}}),
        ("grpo", {"regularize": {"kl_estimator": "k2"}}),
        ("grpo", {"regularize": {"kl": 0.0, "kl_estimator": "k3"}}),
        ("grpo", {"reference": {"update": "reset", "every": 5, "reset_optimizer": True}}),
        ("grpo", {"replay": {"name": "fifo", "add": 16}}),
        ("grpo", {"replay": {"name": "fifo", "capacity": 2}}),
    ],
)
def test_a_setting_with_an_effect_is_accepted(name: str, changes: dict[str, object]) -> None:
    algorithm = find_algorithm({"name": name, **changes})
    assert algorithm.at(0.0).name == algorithm.at(0.5).name == algorithm.at(1.0).name == name


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("keep", "dynamic_sampling"),
        ("select", ["cppo"]),
        ("replay", "fifo"),
        ("correction", {"cap": 3.0}),
    ],
)
def test_parts_for_sampled_rollouts_are_refused_where_gold_answers_are_learned(
    part: str, value: object
) -> None:
    with pytest.raises(ConfigError) as caught:
        find_algorithm({"name": "sft", part: value})
    assert caught.value.mistakes == [
        f"algorithm.{part}: has no effect on sft, which trains on gold answers and samples nothing; leave it out"
    ]
    off = "all" if part == "keep" else None
    assert find_algorithm({"name": "sft", part: off}) == ALGORITHMS["sft"]


def test_settings_of_python_are_checked_alike() -> None:
    with pytest.raises(ValueError, match=r"clip_low: 0\.3 has no effect with clip: none"):
        Gmpo(clip="none", clip_low=0.3)
