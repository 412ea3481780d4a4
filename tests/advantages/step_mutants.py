"""Steps that are wrong in one place each, which the references must reject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vlrft.advantages import EstimatorInput
from vlrft.advantages.estimators.components import component_weights
from vlrft.advantages.estimators.known import MinusTracked
from vlrft.advantages.estimators.prefixes import prefix_tree
from vlrft.advantages.estimators.rare_formats import RareFormats
from vlrft.advantages.estimators.smoothed import Smoothed
from vlrft.advantages.grouped import centre, divide_by_group_std, group_mean
from vlrft.config import strict

HERE = "tests.advantages.step_mutants:"


def _standardised(
    inputs: EstimatorInput, extra: float | None = None, ddof: int = 1
) -> EstimatorInput:
    """(r − μ)/(σ + 1e-6) by loops, with another value in the statistics or another σ."""
    key, out = inputs.key("sample"), np.zeros_like(inputs.values)
    for g in np.unique(key):
        rows = key == g
        sample = inputs.values[rows] if extra is None else np.append(inputs.values[rows], extra)
        if len(sample) > ddof and np.ptp(sample) > 1e-6:
            out[rows] = (inputs.values[rows] - sample.mean()) / (sample.std(ddof=ddof) + 1e-6)
    return replace(inputs, values=out)


@strict
class MapoWithoutTheMean:
    """λ times the standardised reward; the second term is missing."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        right = (inputs.values > 1 - 1e-6) * 1.0
        p = group_mean(right.astype(np.float64), inputs.key("sample"))
        return replace(inputs, values=4 * p * (1 - p) * _standardised(inputs).values)


@strict
class OneVirtualRollout:
    """One virtual rollout where two were asked for, and the population's σ."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        return _standardised(inputs, extra=1.0, ddof=0)


@strict
class CentredWithoutWeight:
    """The numerator alone."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        return replace(inputs, values=centre(inputs.values, inputs.key("sample")))


@strict
class StandardisedWithoutWeight:
    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        return _standardised(inputs)


@strict
class TruncatedFactor:
    """(1 − x) in place of its square."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        return replace(inputs, values=inputs.values * (1 - 0.25 * inputs.scores["calls"]))


@strict
class UnlikelyFromTheMost:
    """Ranks from the likeliest; sums of log-probs in place of their mean."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        sums = np.array([row.sum() for row in inputs.signal("logprob")])
        factor = np.ones_like(sums)
        for g in np.unique(inputs.key("sample")):
            rows = inputs.key("sample") == g
            factor[rows] -= 0.5 * np.argsort(np.argsort(sums[rows])) / rows.sum()
        return _standardised(replace(inputs, values=inputs.values * factor))


@strict
class ShareBeforeTheToken:
    """The prefix without the token itself."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        tree = prefix_tree(inputs, "sample")
        return inputs.scale_tokens([1.0 / tree.visits[parents] for parents in tree.parents])


@strict
class ValueOfThePrefix:
    """V(s) in place of its change."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        tree = prefix_tree(inputs, "sample")
        means = tree.mean(inputs.values)
        terms = inputs.add_to_tokens([0.5 * means[nodes] for nodes in tree.nodes])
        return _standardised(terms)


@strict
class OverTheSumOfEntropies:
    """H̄_i over the group's sum of them, upside down."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        entropy = inputs.mean_signal("entropy")
        return replace(
            inputs, values=inputs.values * entropy / group_mean(entropy, inputs.key("sample"))
        )


@strict
class SmoothedOverAllRewards:
    """The larger of the two candidates."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        smaller = Smoothed()(inputs).values
        now = _standardised(inputs).values
        return replace(inputs, values=np.where(np.abs(now) > np.abs(smaller), now, smaller))


@strict
class TrackedAfterItsUpdate:
    """The value that this step's reward is in already."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        notes = MinusTracked(keep=0.75)(inputs).notes
        return replace(
            inputs, values=inputs.values - notes["alpha"] / (notes["alpha"] + notes["beta"])
        )


@strict
class RareFormatsOverRewards:
    """The bonus of a rare format, added in place of multiplied, without its decay."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        started = replace(inputs, progress=0.0)
        return _standardised(RareFormats(score="calls")(started))


@strict
class CertaintyOfTheWholeRollout:
    """The sum over a rollout's tokens in place of the mean: long ones are the most certain."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        sums = [float(tokens.sum()) for tokens in inputs.signal("certainty")]
        return _standardised(replace(inputs, values=np.array(sums)))


@strict
class KnownOverDeviation:
    """Also divided by the group's deviation, as GRPO's advantage is."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        above = inputs.values - inputs.known_of("value", None)
        return replace(inputs, values=divide_by_group_std(above, inputs.key("sample")))


@strict
class OutcomeAlone:
    """The outcome alone in an episode of one turn, where the code adds up both rewards."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        weights = component_weights(inputs, None)
        parts = [w * np.nan_to_num(inputs.scores[n]) for n, w in weights.items() if n != "style"]
        return _standardised(replace(inputs, values=np.sum(parts, axis=0)))


MUTANTS: Mapping[str, tuple[list[Any], Any]] = {
    "smoothed": ([], f"{HERE}SmoothedOverAllRewards"),
    "minus_known": ([], f"{HERE}KnownOverDeviation"),
    "minus_tracked": ([], f"{HERE}TrackedAfterItsUpdate"),
    "rare_formats": ([], f"{HERE}RareFormatsOverRewards"),
    "unlikely": ([], f"{HERE}UnlikelyFromTheMost"),
    "prefix_share": (["centre", "scale"], f"{HERE}ShareBeforeTheToken"),
    "prefix_value": ([], f"{HERE}ValueOfThePrefix"),
    "conflict": (["centre"], {"step": "conflict", "weight": 1.0}),
    "minus_entropy": (["centre"], {"step": "minus_entropy", "scale": 0.1}),
    "drop_uncertain": (["centre"], {"step": "drop_uncertain", "above": 0.8}),
    "self_certainty": ([], f"{HERE}CertaintyOfTheWholeRollout"),
    "over_entropy": (["centre", "scale"], f"{HERE}OverTheSumOfEntropies"),
    "entropy_weight": (
        ["centre", "scale"],
        {"step": "entropy_weight", "alpha": 0.0, "temperature": 2.0},
    ),
    "right_or_wrong": ([], {"step": "right_or_wrong", "right": 0.5}),
    "mute_flat": ([], "centre"),
    "shift": (["centre"], {"step": "shift", "by": 0.1}),
    "log_mean_exp": ([], {"step": "log_mean_exp", "temperature": 1.0}),
    "mixed_deviation": ([], f"{HERE}MapoWithoutTheMean"),
    "beta_normalise": ([], f"{HERE}CentredWithoutWeight"),
    "virtual_best": ([], f"{HERE}OneVirtualRollout"),
    "noise_aware": ([], f"{HERE}StandardisedWithoutWeight"),
    "denoise": ([], {"step": "denoise", "false_positive": 0.2, "false_negative": 0.1}),
    "forward_noise": ([], {"step": "forward_noise", "false_negative": 0.8}),
    "lead": ([], {"step": "lead", "from_tokens": 4, "alpha": 0.0}),
    "shorter_when_right": ([], {"step": "shorter_when_right", "right": 0.0}),
    "gate": ([], "combine"),
    "worst_of": ([], {"step": "mean_minus_variance", "names": ["right", "style"], "weight": 0.0}),
    "mean_minus_variance": ([], {"step": "worst_of", "names": ["right", "style"]}),
    "few_calls": ([], {"step": "few_calls", "c": 1.0}),
    "first_turns": ([], f"{HERE}OutcomeAlone"),
    "times": (["centre"], f"{HERE}TruncatedFactor"),
}
"""Step -> the steps before it, and the wrong version in its place."""
