"""claims.svg: one row per comparison; two metrics as paired differences to the first arm, and a curve over training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from benchmarks.claims.run_stats import METRICS, SECOND, Metric, Row, arms
from benchmarks.claims.train import BLOCK
from vlrft.evaluation.bootstrap import bootstrap

COLOURS = (
    *("#222222", "#c44e52", "#4c72b0", "#dd8452", "#55a868"),
    *("#8172b3", "#937860", "#da8bc3", "#17a2b8"),
)
LABELS, GAP, PANEL, LINE = 190, 50, 290, 24
TITLES = {
    "gpg": "GPG, table 15",
    "gmpo": "GMPO against GRPO, 8 updates a step",
    "gmpo_fast": "GMPO against GRPO at five times that learning rate",
    "cw": "CW-GRPO against GRPO, 4 updates a step",
    "gvpo": "GVPO, 4 updates a step",
}
OVER_TRAINING = {
    "gpg": "accuracy",
    "gmpo": "entropy",
    "gmpo_fast": "accuracy",
    "cw": "entropy",
    "gvpo": "accuracy",
}
LIMITS = {  # values outside are drawn at the edge
    ("gvpo", "final accuracy"): (-25.0, 5.0),
    ("gvpo", "entropy, mean"): (-0.06, 0.06),
}

Scale = Callable[[float], float]


def text(x: float, y: float, content: str, anchor: str = "start", style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {style}>{content}</text>'


def number(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 1000 else f"{value:.3g}"


def ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers from low to high."""
    step = 10.0 ** len(str(int(high - low)))
    while (high - low) / step < 3:
        step /= 2 if str(step).lstrip("0.").startswith(("1", "2")) else 2.5
    first = int(low / step) + (low > 0 and low % step > 0)
    return [step * i for i in range(first, int(high / step) + 1)]


def axis(at: Scale, low: float, high: float, top: float, bottom: float) -> list[str]:
    parts = []
    for v in ticks(low, high):
        parts.append(f'<path d="M{at(v):.1f} {top}V{bottom}" stroke="#e2e2e2"/>')
        parts.append(text(at(v), bottom + 15, number(v), "middle"))
    return parts


def dots(
    by_arm: dict[str, list[float]],
    level: float,
    limits: tuple[float, float] | None,
    x: float,
    top: float,
    title: str,
) -> list[str]:
    """One line per arm: a circle per seed, the mean as a bar, its interval. The first arm is at 0; its mean, `level`, is written there."""
    every = [0.0, *(v for values in by_arm.values() for v in values)]
    slack = (max(every) - min(every) or 1.0) * 0.06
    low, high = limits or (min(every) - slack, max(every) + slack)

    def at(value: float) -> float:
        return x + PANEL * (min(max(value, low), high) - low) / (high - low)

    bottom = top + LINE * len(by_arm)
    parts = [text(x + PANEL / 2, top - 8, title, "middle"), *axis(at, low, high, top, bottom)]
    parts.append(f'<path d="M{at(0):.1f} {top}V{bottom}" stroke="#888"/>')
    for i, values in enumerate(by_arm.values()):
        y, colour = top + LINE * (i + 0.5), COLOURS[i]
        if i == 0:
            side, anchor = (8, "start") if at(0) < x + PANEL / 2 else (-8, "end")
            parts.append(text(at(0) + side, y + 4, f"mean {number(level)}", anchor))
            continue
        if not values:
            parts.append(text(x + PANEL / 2, y + 4, "never", "middle", 'fill="#888"'))
            continue
        left, right = bootstrap(values)
        bar = f'stroke="{colour}" stroke-width="4"'
        parts.append(f'<path d="M{at(left):.1f} {y}H{at(right):.1f}" {bar}/>')
        if low <= fmean(values) <= high:
            parts.append(f'<path d="M{at(fmean(values)):.1f} {y - 8}V{y + 8}" {bar}/>')
        else:
            edge, anchor = (x + 8, "start") if fmean(values) < low else (x + PANEL - 8, "end")
            parts.append(text(edge, y - 5, f"mean {fmean(values):.3g}", anchor, f'fill="{colour}"'))
        parts += [
            f'<circle cx="{at(v):.1f}" cy="{y}" r="3.5" fill="#fff" fill-opacity=".6" stroke="{colour}"/>'
            for v in values
        ]
    return parts


def paired_gain(
    by_arm: dict[str, dict[int, Row]], metric: Metric
) -> tuple[dict[str, list[float]], float]:
    """Differences to the first arm for every seed that has both values, by arm; and the first arm's mean."""
    base = {s: v for s, r in next(iter(by_arm.values())).items() if (v := metric(r)) is not None}
    gains = {
        name: [
            v - base[s] for s, r in by_seed.items() if (v := metric(r)) is not None and s in base
        ]
        for name, by_seed in by_arm.items()
    }
    return gains, fmean(base.values()) if base else 0.0


def points(rows: Sequence[Row], name: str) -> list[tuple[float, float]]:
    """(step, mean over the seeds), up to the last step that every seed reached."""
    if name == "accuracy":
        count = min(len(r["evals"]["step"]) for r in rows)
        return [
            (
                fmean(r["evals"]["step"][i] for r in rows),
                100 * fmean(r["evals"]["accuracy"][i] for r in rows),
            )
            for i in range(count)
        ]
    count = min(len(r["blocks"][name]) for r in rows)
    return [((i + 0.5) * BLOCK, fmean(r["blocks"][name][i] for r in rows)) for i in range(count)]


def curves(by_arm: dict[str, list[Row]], name: str, x: float, top: float) -> list[str]:
    lines = [points(rows, name) for rows in by_arm.values()]
    bottom = top + max(LINE * len(by_arm), 110)
    last = max(p[0] for line in lines for p in line)
    low = min(0.0, *(p[1] for line in lines for p in line))
    high = 1.05 * max(p[1] for line in lines for p in line)

    def x_of(v: float) -> float:
        return x + PANEL * v / last

    def y_of(v: float) -> float:
        return bottom - (bottom - top) * (v - low) / (high - low)

    title = {"accuracy": "greedy accuracy, %", "entropy": "entropy, nats"}[name]
    parts = [text(x + PANEL / 2, top - 8, f"{title}, over steps: mean of the seeds", "middle")]
    parts += axis(x_of, 0, last, top, bottom)
    for v in ticks(low, high):
        parts.append(f'<path d="M{x} {y_of(v):.1f}H{x + PANEL}" stroke="#e2e2e2"/>')
        parts.append(text(x - 6, y_of(v) + 4, f"{v:g}", "end"))
    for i, line in enumerate(lines):
        path = "L".join(f"{x_of(a):.1f} {y_of(b):.1f}" for a, b in line)
        parts.append(f'<path d="M{path}" fill="none" stroke="{COLOURS[i]}" stroke-width="1.6"/>')
    return parts


def picture(rows: list[Row]) -> str:
    parts, top = list[str](), 50.0
    columns = [LABELS + i * (PANEL + GAP) for i in range(3)]
    for comparison, second in SECOND.items():
        by_seed = arms(rows, comparison)
        if not by_seed:
            continue
        by_arm = {name: list(seeds.values()) for name, seeds in by_seed.items()}
        parts.append(text(10, top - 32, TITLES[comparison], style='font-weight="bold"'))
        for i, name in enumerate(by_arm):
            style = f'fill="{COLOURS[i]}"'
            parts.append(text(LABELS - 12, top + LINE * (i + 0.5) + 4, name, "end", style))
        for x, metric in zip(columns, ("final accuracy", second), strict=False):
            values, level = paired_gain(by_seed, METRICS[metric])
            limits = LIMITS.get((comparison, metric))
            parts += dots(values, level, limits, x, top, f"{metric}, minus the first arm's")
        parts += curves(by_arm, OVER_TRAINING[comparison], columns[2], top)
        top += max(LINE * len(by_arm), 110) + 85
    caption = (
        "Circle: one seed's difference to the first arm; bar: the mean; thick line: its 95 % bootstrap interval over "
        "seeds. Values outside a panel are drawn at its edge. Accuracy in points. One colour per arm."
    )
    parts.append(text(10, top - 32, caption))
    width = columns[2] + PANEL + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top - 25:.0f}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>'
        + "\n".join(parts)
        + "</svg>\n"
    )
