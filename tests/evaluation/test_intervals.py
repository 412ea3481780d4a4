"""Intervals of metrics: Wilson's for shares of successes, the bootstrap for other values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vlrft.cli.main import main
from vlrft.evaluation.bootstrap import bootstrap
from vlrft.evaluation.intervals import metric_interval, wilson


def test_no_success_in_600_does_not_mean_that_none_is_possible() -> None:
    # (z²) / (n + z²) with z = 1.959964, by hand from Wilson's formula at p = 0
    assert wilson(0, 600) == pytest.approx((0.0, 3.841459 / 603.841459), abs=1e-9)
    assert wilson(600, 600) == pytest.approx((600 / 603.841459, 1.0), abs=1e-9)


def test_wilsons_interval_is_the_one_of_newcombes_table() -> None:
    # Newcombe 1998 (Statistics in Medicine 17:857), table I: the score method without continuity correction
    for successes, trials, low, high in [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605)]:
        assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(1, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)


def test_only_a_mean_of_zeros_and_ones_is_a_share_of_successes() -> None:
    assert metric_interval([0.0, 1.0, 1.0]) == (wilson(2, 3), "wilson")
    ious = [0.0, 0.25, 1.0]
    assert metric_interval(ious) == (bootstrap(ious), "bootstrap")
    assert metric_interval([0.0, 1.0], lambda items: float(max(items)))[1] == "bootstrap"
    assert metric_interval([0.0, 1.0], share=False)[1] == "bootstrap"  # an error of 0 or 1


def test_the_result_of_an_evaluation_names_the_method_of_each_interval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    row = {"output": "<answer>3</answer>", "answer": 5}
    rows.write_text("".join(json.dumps({"id": str(k), **row}) + "\n" for k in range(600)))
    out = tmp_path / "out.json"
    assert main(["score", "counting", "--predictions", str(rows), "--json", str(out)]) == 0
    assert "0/600  0.00 [0.00, 0.64]" in capsys.readouterr().out
    metrics = json.loads(out.read_text())["strict"]["metrics"]
    assert metrics["accuracy"]["ci_method"] == "wilson"
    assert metrics["accuracy"]["ci"] == pytest.approx([0.0, 0.006362], abs=1e-6)
    assert metrics["mean absolute error"]["ci_method"] == "bootstrap"
