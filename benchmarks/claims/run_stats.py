"""Metrics of one run's row, for the tables, the verdicts and the picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from benchmarks.claims.arms import COMPARISONS, SWEEP_SEED
from benchmarks.claims.train import BLOCK

Row = Mapping[str, Any]
Metric = Callable[[Row], float | None]  # None: not defined for this run
THRESHOLD = 0.6


def final(row: Mapping[str, Any]) -> float:
    """Mean accuracy of the evaluations in the last tenth of the steps."""
    steps, accuracies = row["evals"]["step"], row["evals"]["accuracy"]
    late = (a for s, a in zip(steps, accuracies, strict=True) if s > 0.9 * steps[-1])
    return float(fmean(late))


def _accuracy(row: Row) -> float:
    return 100 * final(row)


def _start(row: Row) -> float:
    return 100 * float(row["evals"]["accuracy"][0])


def _curve(row: Row) -> float:
    return 100 * fmean(row["evals"]["accuracy"])


def _best(row: Row) -> float:
    return 100 * float(max(row["evals"]["accuracy"]))


def _reach(axis: str) -> Metric:
    """The `step` or number of `rollouts` at which the mean of three consecutive evaluations reaches the threshold; None: never."""

    def metric(row: Row) -> float | None:
        positions, accuracies = row["evals"][axis], row["evals"]["accuracy"]
        means = (fmean(accuracies[i - 2 : i + 1]) for i in range(2, len(accuracies)))
        return next((float(positions[i]) for i, m in enumerate(means, 2) if m >= THRESHOLD), None)

    return metric


def _mean(name: str) -> Metric:
    """Mean over all steps."""
    return lambda row: fmean(row["blocks"][name])


def _late(name: str) -> Metric:
    """Mean over the last fifth of the steps."""
    return lambda row: fmean(row["blocks"][name][-(len(row["blocks"][name]) // 5) :])


def _width(row: Row) -> float:
    """Greatest minus least log ratio of a step, mean over steps."""
    blocks = row["blocks"]
    return fmean(blocks["log_ratio_high"]) - fmean(blocks["log_ratio_low"])


def _entropy_at_threshold(row: Row) -> float | None:
    step = _reach("step")(row)
    entropies = row["blocks"]["entropy"]
    return None if step is None else float(entropies[min(int(step) // BLOCK, len(entropies) - 1)])


AT = f"{THRESHOLD:.0%}".replace("%", " %")
METRICS: dict[str, Metric] = {
    "accuracy at the start": _start,
    "final accuracy": _accuracy,
    "best accuracy": _best,
    "mean of the curve": _curve,
    "sampled reward, last fifth": lambda row: 100 * (_late("reward")(row) or 0.0),
    f"steps to {AT}": _reach("step"),
    f"rollouts to {AT}": _reach("rollouts"),
    "groups with different rewards": _mean("valid"),
    "width of log ratio": _width,
    "least log ratio": _mean("log_ratio_low"),
    "greatest log ratio": _mean("log_ratio_high"),
    "entropy, mean": _mean("entropy"),
    "entropy, last fifth": _late("entropy"),
    f"entropy at {AT}": _entropy_at_threshold,
    "gradient norm, mean": _mean("norm"),
    "gradient norm, greatest": lambda row: float(max(row["blocks"]["norm_max"])),
    "share of tokens with w < 0.5": _mean("below_half"),
}
_ALL = ("accuracy at the start", "final accuracy", "best accuracy", "mean of the curve")
_ENTROPY = ("entropy, mean", "entropy, last fifth", f"entropy at {AT}")
_NORM = ("gradient norm, mean", "gradient norm, greatest")
_RATIO = ("width of log ratio", "least log ratio", "greatest log ratio")
COLUMNS: dict[str, tuple[str, ...]] = {
    "gpg": (*_ALL, f"steps to {AT}", f"rollouts to {AT}", "groups with different rewards"),
    "gmpo": (*_ALL, *_RATIO, *_ENTROPY, *_NORM),
    "gmpo_fast": (*_ALL, *_RATIO, *_ENTROPY, *_NORM),
    "cw": (*_ALL, *_ENTROPY, "width of log ratio", *_NORM, "share of tokens with w < 0.5"),
    "gvpo": (*_ALL, "sampled reward, last fifth", *_ENTROPY[:2], "width of log ratio", _NORM[0]),
}
SECOND = {  # the second metric in the picture, next to accuracy
    "gpg": f"rollouts to {AT}",
    "gmpo": "width of log ratio",
    "gmpo_fast": "width of log ratio",
    "cw": "entropy, mean",
    "gvpo": "entropy, mean",
}


def arms(rows: list[Row], comparison: str) -> dict[str, dict[int, Row]]:
    """The reported rows of a comparison, by arm (in the order of arms.py) and by seed."""
    reported = [r for r in rows if r["comparison"] == comparison and r["seed"] != SWEEP_SEED]
    return {
        a.name: {r["seed"]: r for r in reported if r["arm"] == a.name}
        for a in COMPARISONS[comparison]
        if any(r["arm"] == a.name for r in reported)
    }
