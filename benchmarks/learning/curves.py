"""Curves of several runs in one picture: a panel for each metric, a colour for each kind of run, dashed with permuted rewards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from markupsafe import escape

from benchmarks.learning.outcomes import Case, read_json_lines
from vlrft.reporting.html.charts import running_mean, ticks
from vlrft.reporting.run_folder.names import METRICS

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 330, 220, 44, 30, 30  # of a panel
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
EVERY = 10  # steps of a mean


def read_curve(run: Path, name: str) -> list[float]:
    """The values of a metric, step by step."""
    return [row[name] for row in read_json_lines(run / METRICS) if name in row]


def mean_curves(run: Path, names: Iterable[str]) -> dict[str, list[float]]:
    """Metric -> its means over ten steps each; steps after the last full ten are left out."""
    curves = {name: read_curve(run, name) for name in names}
    return {
        name: [
            fmean(values[k : k + EVERY]) for k in range(0, max(len(values) - EVERY, 0) + 1, EVERY)
        ]
        for name, values in curves.items()
    }


def draw_curves(runs: Mapping[Case, Path], names: Mapping[str, str]) -> str:
    """The running means of the metrics as SVG. `names`: metric -> title of its panel."""
    kinds = list(dict.fromkeys(case.family for case in runs))
    width, height = WIDTH * len(names), HEIGHT + 20 * len(kinds)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for k, (name, title) in enumerate(names.items()):
        curves = {case: running_mean(read_curve(run, name)) for case, run in runs.items()}
        parts.append(f'<g transform="translate({k * WIDTH},0)">{_panel(title, curves, kinds)}</g>')
    for k, kind in enumerate(kinds):
        y, colour = HEIGHT + 20 * k + 8, COLOURS[k % len(COLOURS)]
        parts.append(_line([(LEFT, y - 4), (LEFT + 30, y - 4)], colour, dashed=False))
        parts.append(_line([(LEFT + 40, y - 4), (LEFT + 70, y - 4)], colour, dashed=True))
        text = f"{kind}: solid with its rewards, dashed with permuted rewards; a line a seed"
        parts.append(f'<text x="{LEFT + 80}" y="{y}">{escape(text)}</text>')
    return "".join([*parts, "</svg>\n"])


def _panel(title: str, curves: Mapping[Case, Sequence[float]], kinds: Sequence[str]) -> str:
    values = [value for curve in curves.values() for value in curve]
    steps = max(max(map(len, curves.values())), 2)
    low, high = min(values), max(values)
    margin = 0.05 * (high - low) or 0.5
    low, high = low - margin, high + margin

    def at(step: int, value: float) -> tuple[float, float]:
        across = LEFT + (step - 1) / (steps - 1) * (WIDTH - LEFT - 16)
        return across, TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<text x="{LEFT}" y="16">{escape(title)}</text>']
    for mark in ticks(low, high):
        y = at(1, mark)[1]
        parts.append(f'<path d="M{LEFT},{y:.1f}H{WIDTH - 16}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{mark:g}</text>')
    for step in (1, steps):
        x = at(step, low)[0]
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 12}" text-anchor="middle">{step}</text>')
    for case, curve in curves.items():
        colour = COLOURS[kinds.index(case.family) % len(COLOURS)]
        places = [at(step, value) for step, value in enumerate(curve, start=1)]
        parts.append(_line(places, colour, dashed=case.control))
    return "".join(parts)


def _line(places: Sequence[tuple[float, float]], colour: str, *, dashed: bool) -> str:
    path = "L".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"{dashes}/>'
