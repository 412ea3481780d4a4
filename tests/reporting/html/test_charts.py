"""Charts of the report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.reporting.html.runs import write
from vlrft.reporting.html.charts import Chart, draw, running_mean, ticks
from vlrft.reporting.html.page import write_report


def test_curves() -> None:
    assert running_mean([1.0, 1.0, 1.0]) == pytest.approx([1.0, 1.0, 1.0])
    assert ticks(0.0, 1.0) == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0])
    assert ticks(2.0, 2.0) == [2.0]
    assert draw(Chart(title="empty")) == ""
    svg = draw(
        Chart(
            title="<b>",
            points=[(1, 0.5), (2, 0.7)],
            marks=[(1, 0.5, 0.4, 0.6)],
            stages=[("gpg", 0, 2)],
        )
    )
    assert "<b>" not in svg
    assert svg.count("<path") == 2
    assert "nan" not in svg


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 1, ["0", "1"]),
        (1, 3, ["1", "2", "3"]),
        (0, 605, ["0", "200", "400", "600"]),
        (0, 4000, ["0", "1000", "2000", "3000", "4000"]),
        (561, 605, ["570", "580", "590", "600"]),
    ],
)
def test_steps_are_labelled_by_whole_numbers(low: int, high: int, labels: list[str]) -> None:
    svg = draw(Chart(title="t", points=[(low, 1.0), (high, 2.0)]))
    assert re.findall(r'<text class="tick" [^>]*>([^<]*)<', svg) == labels


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0.0, 0.3, ["0", "0.1", "0.2", "0.3"]),
        (1000, 3000, ["1000", "2000", "3000"]),
        (1e-7, 3e-7, ["1e-07", "2e-07", "3e-07"]),
        (-0.5, 0.5, ["-0.5", "0", "0.5"]),
    ],
)
def test_values_are_labelled_by_round_numbers(low: float, high: float, labels: list[str]) -> None:
    svg = draw(Chart(title="t", points=[(1, low), (2, high)]))
    assert re.findall(r'<text class="tick end" [^>]*>([^<]*)<', svg) == labels


def test_a_single_step_is_a_visible_dot() -> None:
    svg = draw(Chart(title="t", points=[(1, 0.5)]))
    assert svg.count("<circle") == 1


def test_a_stage_starts_its_own_curve_and_has_its_own_loss(run: Path) -> None:
    stages = [("sft", 0, 2), ("gpg", 2, 4)]
    points = [(1, 8.0), (2, 8.0), (3, 2.0), (4, 2.0)]
    svg = draw(Chart(title="t", points=points, stages=stages))
    means = re.findall(r'<path class="mean" d="M([^"]*)"', svg)
    heights = [{point.split(",")[1] for point in mean.split("L")} for mean in means]
    assert [len(h) for h in heights] == [
        1,
        1,
    ]  # constant within a stage: no mean continues into the next
    write(
        run / "metrics.jsonl",
        [
            {"stage": stage, "step": step, "loss": 1.0, "entropy": 1.0}
            for stage, first, last in stages
            for step in range(first + 1, last + 1)
        ],
    )
    html = write_report(run).read_text()
    captions = re.findall(r"<figcaption>([^<]*)<", html)
    assert captions[1:] == ["Loss: sft", "Loss: gpg", "Entropy of a token (nats)"]


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0.05, 5.0, ["0.1", "1"]),
        (0.5, 20.0, ["0.5", "1", "2", "5", "10", "20"]),
        (1.0, 2.0, ["1", "1.5", "2"]),  # too near for logarithms
        (0.0, 30.0, ["0", "10", "20", "30"]),  # zero has none
    ],
)
def test_values_of_many_sizes_are_drawn_by_their_logarithm(
    low: float, high: float, labels: list[str]
) -> None:
    svg = draw(Chart(title="t", points=[(1, low), (2, high)], log=True))
    assert re.findall(r'<text class="tick end" [^>]*>([^<]*)<', svg) == labels
