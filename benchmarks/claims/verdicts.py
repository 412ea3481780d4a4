"""The papers' claims, each the difference of a metric between two arms with the same seed, and the verdict of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from benchmarks.claims.run_stats import AT, METRICS, Row, arms
from vlrft.evaluation.bootstrap import bootstrap

MARGIN = 5.0  # points of accuracy; a smaller difference counts as equally good
SEEDS = 3  # with fewer there is no verdict
RULE = (
    "A claim of *more* (*less*) is **supported** when the 95 % interval of the paired difference and every seed lie on the claimed "
    "side of 0, **contradicted** when they all lie on the other side, and otherwise **not distinguishable here**; it *leans* when only "
    "the interval lies on one side. A claim "
    f"of *no worse* is supported when the whole interval lies above −{MARGIN:g} points, contradicted when it lies below."
)


_GRPO = "grpo, clip 0.2, no KL"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """`metric` of `arm` minus that of `than` (None: minus the accuracy at the start of the same run) is `more` or `less` than 0, or no worse."""

    comparison: str
    text: str
    arm: str
    than: str | None
    metric: str = "final accuracy"
    kind: Literal["more", "less", "no worse"] = "more"


def _gmpo(comparison: str) -> list[Claim]:
    claims: list[tuple[str, str, str, Literal["more", "less"]]] = [
        ("GMPO is better than GRPO", _GRPO, "final accuracy", "more"),
        ("its ratios stay in a narrower range than GRPO's", _GRPO, "width of log ratio", "less"),
        ("its entropy stays higher than GRPO's", _GRPO, "entropy, mean", "more"),
        ("its gradient norm is smaller than GRPO's", _GRPO, "gradient norm, mean", "less"),
        ("its largest gradients are smaller", _GRPO, "gradient norm, greatest", "less"),
        ("clip 0.4 is better than 0.2", "gmpo, clip 0.2", "final accuracy", "more"),
        ("clip 0.4 is better than none", "gmpo, no clip", "final accuracy", "more"),
        ("clip 0.4 narrows the range", "gmpo, no clip", "width of log ratio", "less"),
    ]
    return [
        Claim(
            comparison=comparison,
            text=text,
            arm="gmpo, clip 0.4",
            than=than,
            metric=metric,
            kind=kind,
        )
        for text, than, metric, kind in claims
    ]


def _gvpo(
    text: str, arm: str, than: str | None, kind: Literal["more", "less", "no worse"]
) -> Claim:
    return Claim(comparison="gvpo", text=text, arm=arm, than=than, kind=kind)


_FULL = "full, β 0.1"
_EQUAL = "at equal rollouts"
CLAIMS = [
    Claim(
        comparison="gpg",
        text="α and a centred advantage help: C is better than A",
        arm="C",
        than="A",
    ),
    Claim(comparison="gpg", text="α alone helps: C is better than B", arm="C", than="B"),
    Claim(comparison="gpg", text=f"β_th helps: D is better than C {_EQUAL}", arm="D", than="C"),
    Claim(comparison="gpg", text="D is better than C at equal steps", arm="D_steps", than="C"),
    Claim(comparison="gpg", text=f"all of it: D is better than A {_EQUAL}", arm="D", than="A"),
    Claim(
        comparison="gpg",
        text="C reaches the threshold in fewer rollouts than A",
        arm="C",
        than="A",
        metric=f"rollouts to {AT}",
        kind="less",
    ),
    Claim(
        comparison="gpg",
        text="D reaches the threshold in fewer steps than C",
        arm="D_steps",  # evaluated at the same steps as C
        than="C",
        metric=f"steps to {AT}",
        kind="less",
    ),
    Claim(
        comparison="gpg",
        text="D reaches the threshold in fewer rollouts than C",
        arm="D",
        than="C",
        metric=f"rollouts to {AT}",
        kind="less",
    ),
    *_gmpo("gmpo"),
    *_gmpo("gmpo_fast"),
    Claim(
        comparison="cw",
        text="CW-GRPO keeps entropy higher than GRPO",
        arm="cw_grpo",
        than="grpo",
        metric="entropy, mean",
    ),
    Claim(
        comparison="cw",
        text="also at the same accuracy",
        arm="cw_grpo",
        than="grpo",
        metric=f"entropy at {AT}",
    ),
    Claim(comparison="cw", text="CW-GRPO is better than GRPO", arm="cw_grpo", than="grpo"),
    _gvpo("the Var term helps: full is better than without it", _FULL, "without Var", "more"),
    _gvpo("the Cov term helps: full is better than without it", _FULL, "without Cov", "more"),
    _gvpo("full is better than without both", _FULL, "without both", "more"),
    _gvpo("without Var it collapses: below its own start", "without Var", None, "less"),
    _gvpo("without Cov it collapses: below its own start", "without Cov", None, "less"),
    _gvpo("25 % stored rollouts do no harm", "25 % stored", _FULL, "no worse"),
    _gvpo("50 % stored rollouts do no harm", "50 % stored", _FULL, "no worse"),
    _gvpo("75 % stored rollouts do no harm", "75 % stored", _FULL, "no worse"),
    _gvpo("β 0.03 is no worse than 0.1", "β 0.03", _FULL, "no worse"),
    _gvpo("β 0.3 is no worse than 0.1", "β 0.3", _FULL, "no worse"),
]


def differences(claim: Claim, rows: list[Row]) -> tuple[list[float], int]:
    """One difference per seed, and the number of seeds that lack one of the two values."""
    by_arm, metric = arms(rows, claim.comparison), METRICS[claim.metric]
    values, missing = [], 0
    for seed, row in by_arm.get(claim.arm, {}).items():
        other = row if claim.than is None else by_arm.get(claim.than, {}).get(seed)
        start = METRICS["accuracy at the start"]
        a, b = metric(row), (start if claim.than is None else metric)(other) if other else None
        if a is None or b is None:
            missing += 1
        else:
            values.append(a - b)
    return values, missing


def judge(claim: Claim, values: list[float]) -> str:
    """The verdict by RULE, and which way the interval or the seeds lean when it is not reached."""
    low, high = bootstrap(values)
    if claim.kind == "no worse":
        lower = ", every seed lower" if max(values) < 0 else ""
        if high < -MARGIN:
            return "contradicted"
        return ("supported" if low > -MARGIN else "not distinguishable here") + lower
    side = 1 if claim.kind == "more" else -1
    if min(side * low, side * high) > 0:
        every = all(side * v > 0 for v in values)
        return "supported" if every else "not distinguishable here, leans for it"
    if max(side * low, side * high) < 0:
        every = all(side * v < 0 for v in values)
        return "contradicted" if every else "not distinguishable here, leans against"
    return "not distinguishable here"


def lines(rows: list[Row], comparison: str) -> list[str]:
    """One Markdown table row per claim."""
    out = ["| claim | metric | difference | seeds up | verdict |", "| --- " * 5 + "|"]
    for claim in CLAIMS:
        values, missing = differences(claim, rows) if claim.comparison == comparison else ([], 0)
        if len(values) < SEEDS:
            continue
        (low, high), up = bootstrap(values), sum(v > 0 for v in values)
        digits = 0 if max(map(abs, values)) >= 100 else 1 if max(map(abs, values)) >= 1 else 3
        spread = f"{fmean(values):+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"
        seeds = f"{up} of {len(values)}" + (f", {missing} without" if missing else "")
        between = f"{claim.arm} − {claim.than or 'its start'}"
        cells = [claim.text, f"{claim.metric}: {between}", spread, seeds, judge(claim, values)]
        out.append("| " + " | ".join([*cells[:4], f"**{cells[4]}**"]) + " |")
    return out if len(out) > 2 else [f"Fewer than {SEEDS} seeds: no verdict."]
