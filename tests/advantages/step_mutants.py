"""Steps that are wrong in one place each, which the references must reject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vlrft.advantages import EstimatorInput
from vlrft.advantages.grouped import centre, group_mean
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


MUTANTS: Mapping[str, tuple[list[Any], Any]] = {
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
    "first_turns": (["combine"], "centre"),
    "times": (["centre"], f"{HERE}TruncatedFactor"),
}
"""Step -> the steps before it, and the wrong version in its place."""
