"""Line charts as inline SVG: each series thin, its running mean thick, stages shaded, evaluations with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH, HEIGHT = 360, 180
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 20, 24  # margins; stage names are above the plot
SMOOTHING = 0.9  # weight of the past in the running mean
WIDE = (
    30.0  # ratio of the largest to the smallest value above which a linear axis hides small values
)


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One chart: points (step, value), and evaluation marks (step, value, low, high)."""

    title: str
    points: Sequence[tuple[float, float]] = ()
    marks: Sequence[tuple[float, float, float, float]] = ()
    stages: Sequence[tuple[str, float, float]] = ()  # name, step before the first, last step
    log: bool = False  # a logarithmic axis, if all values are positive and their ratio exceeds WIDE


def running_mean(values: Sequence[float]) -> list[float]:
    """Exponential moving average, without its bias at the start."""
    out: list[float] = []
    total = weight = 0.0
    for value in values:
        total = SMOOTHING * total + (1 - SMOOTHING) * value
        weight = SMOOTHING * weight + (1 - SMOOTHING)
        out.append(total / weight)
    return out


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers in the range, about `about` of them."""
    if not high > low:
        return [float(low)]
    raw = (high - low) / about
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(m * unit for m in (1, 2, 2.5, 5, 10) if m * unit >= raw)
    first = math.ceil(low / step - 1e-9)
    return [float(k * step) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def decades(low: float, high: float) -> list[float]:
    """Logarithms of the round numbers from 10^low to 10^high: 1, 2 and 5 of each decade; 1 only for many decades."""
    marks = (1, 2, 5) if high - low < 2 else (1,)
    logs = (k + math.log10(m) for k in range(math.floor(low), math.ceil(high) + 1) for m in marks)
    return [value for value in logs if low <= value <= high]


def draw(chart: Chart) -> Markup:
    """The chart as an <svg> element that takes its colours from the page."""
    steps = [x for x, _ in chart.points] + [m[0] for m in chart.marks]
    values = [y for _, y in chart.points] + [v for m in chart.marks for v in m[1:]]
    if not values:
        return Markup("")
    x0, x1 = min(steps), max(max(steps), min(steps) + 1)
    low, high = min(values), max(values)
    log = chart.log and low > 0 and high > WIDE * low
    low, high = (math.log10(low), math.log10(high)) if log else (low, high)
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    low, high = low - margin, high + margin

    def x(step: float) -> float:
        return LEFT + (step - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        scaled = math.log10(value) if log else value
        return TOP + (high - scaled) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [
        Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
            WIDTH, HEIGHT, chart.title
        )
    ]
    for k, (name, first, last) in enumerate(chart.stages):
        left, right = x(max(first, x0)), x(min(last, x1))
        if k % 2:
            parts.append(_rect("stage", left, TOP, right - left, HEIGHT - TOP - BOTTOM))
        if right - left > 5 * len(name):
            parts.append(_text("label", (left + right) / 2, TOP - 7, escape(name)))
    for value in [10**k for k in decades(low, high)] if log else ticks(low, high):
        parts.append(_line("grid", LEFT, y(value), WIDTH - RIGHT, y(value)))
        parts.append(_text("tick end", LEFT - 9, y(value) + 4, Markup(f"{value:.6g}")))
    for step in ticks(x0, x1, 5):
        if step.is_integer():
            parts.append(_text("tick", x(step), HEIGHT - 7, Markup(f"{step:.0f}")))
    for points in _by_stage(chart):
        means = running_mean([v for _, v in points])
        parts.append(_path("raw", [(x(s), y(v)) for s, v in points]))
        parts.append(_path("mean", [(x(s), y(m)) for (s, _), m in zip(points, means, strict=True)]))
        if len(points) == 1:
            parts.append(_dot("mean", x(points[0][0]), y(means[0])))
    for step, value, lower, upper in chart.marks:
        parts.append(_line("mark", x(step), y(lower), x(step), y(upper)))
        parts.append(_dot("mark", x(step), y(value)))
    if len(chart.marks) > 1:
        parts.append(_path("join", [(x(m[0]), y(m[1])) for m in chart.marks]))
    return Markup("").join([*parts, Markup("</svg>")])


def _by_stage(chart: Chart) -> list[list[tuple[float, float]]]:
    """The points of each stage; a stage's curve does not continue that of the stage before."""
    ends = [last for _, _, last in chart.stages]
    by_stage: dict[int, list[tuple[float, float]]] = {}
    for step, value in chart.points:
        by_stage.setdefault(sum(step > end for end in ends), []).append((step, value))
    return list(by_stage.values())


def _path(kind: str, points: Sequence[tuple[float, float]]) -> Markup:
    line = "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in points)
    return Markup('<path class="{}" d="{}"/>').format(kind, line)


def _dot(kind: str, left: float, top: float) -> Markup:
    return Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="3.5"/>').format(kind, left, top)


def _line(kind: str, xa: float, ya: float, xb: float, yb: float) -> Markup:
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(
        kind, xa, ya, xb, yb
    )


def _rect(kind: str, left: float, top: float, width: float, height: float) -> Markup:
    return Markup('<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}"/>').format(
        kind, left, top, max(width, 0), height
    )


def _text(kind: str, left: float, top: float, text: Markup) -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(kind, left, top, text)
