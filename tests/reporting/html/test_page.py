from __future__ import annotations

import base64
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.fakes.policies import noise_image
from vlrft.reporting.html.cards import card, overlays, pick
from vlrft.reporting.html.charts import Chart, draw, running_mean, ticks
from vlrft.reporting.html.page import summary_table, write_report
from vlrft.reporting.html.run_data import read_run
from vlrft.schema import DataError

HOSTILE = "<script>alert(1)</script><answer>(100,100),(600,700)</answer>"


def rollout(step: int, reward: float, completion: str = HOSTILE) -> dict[str, Any]:
    return {
        "stage": "gpg",
        "step": step,
        "id": "a",
        "prompt": "Where?",
        "images": ["images/x.png"],
        "completion": completion,
        "reward": reward,
        "scores": {"boxes": reward, "count": None},
        "advantage": reward - 0.5,
        "answer": [0, 0, 500, 500],
        "tags": {"kind": "ground"},
        "origin": "fresh",
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two steps, evaluated before and after."""
    (tmp_path / "config.yaml").write_text("task: {name: toy}\n")
    (tmp_path / "images").mkdir()
    noise_image(28, 28).save(tmp_path / "images" / "x.png")
    metrics = [{"stage": "gpg", "step": s, "loss": 0.1 * s, "reward/mean": 0.2 * s} for s in (1, 2)]
    write(tmp_path / "metrics.jsonl", metrics)
    write(tmp_path / "rollouts.jsonl", [rollout(1, 0.25), rollout(1, 0.75)])
    evals, values = [], []
    for stage, step, right in (("init", 0, 1), ("gpg", 2, 3)):
        score = {"correct": right, "n": 4, "score": right / 4, "ci": [0.0, 1.0]}
        evals.append({"stage": stage, "step": step, "split": "test", "scores": {"ground": score}})
        own = [1.0] * right + [0.0] * (4 - right)
        values.append({"stage": stage, "step": step, "split": "test", "values": {"ground": own}})
    record = {**rollout(2, 0.5), "split": "test", "output": HOSTILE}
    del record["completion"], record["advantage"]
    write(tmp_path / "evals.jsonl", [record])
    write(tmp_path / "values.jsonl", values)
    (tmp_path / "summary.json").write_text(
        json.dumps(
            {
                "task": "toy",
                "algorithm": "gpg",
                "seed": 0,
                "seconds": {"total": 3.0},
                "evals": evals,
            }
        )
    )
    return tmp_path


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_page_is_self_contained_and_escapes_what_models_say(run: Path) -> None:
    html = write_report(run).read_text()
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert set(re.findall(r'(?:src|href)="(\w+:)', html)) == {"data:"}
    assert not re.search(r"https?://", html)
    assert html.count("<svg") == 3  # one figure, reward, loss
    assert html.count('class="box true"') == html.count('class="box predicted"') == 3


def test_the_table_by_hand(run: Path) -> None:
    first, init, after = summary_table(run).splitlines()
    assert first.split()[:3] == ["stage", "correct", "score"]
    assert init.split()[:4] == ["ground", "init", "1/4", "25.0"]
    assert after.split()[:3] == ["gpg", "3/4", "75.0"]
    assert "+50.0 [+0.0, +100.0]" in after


def test_what_the_paper_reports_stands_beside_the_last_stage(run: Path) -> None:
    assert "paper" not in summary_table(run)
    told = "published: {source: A paper, scores: {ground: 51.3, other: 1.0}, note: a note}\n"
    (run / "config.yaml").write_text(f"task: {{name: toy}}\n{told}")
    head, first, last = summary_table(run).splitlines()
    assert head.endswith("paper")
    assert (first.split()[-1] == "51.3", last.split()[-1]) == (False, "51.3")
    page = write_report(run).read_text()
    assert "Paper: A paper. a note" in page
    assert page.count("<td>51.3</td>") == 1


def test_a_run_that_has_only_begun_has_a_report(run: Path) -> None:
    for name in ("evals.jsonl", "values.jsonl", "summary.json", "rollouts.jsonl"):
        (run / name).unlink()
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"stage": "gpg", "st')
    with (run / "rollouts.jsonl").open("ab") as file:
        file.write('{"completion": "é'.encode()[:-1])  # killed in the middle of a character
    html = write_report(run).read_text()
    assert "No evaluation yet" in html
    assert "Loss" in html
    assert summary_table(run).split()[0] == "stage"


def test_a_folder_without_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no run here"):
        write_report(tmp_path)


def test_boxes_are_drawn_in_percent_and_only_where_the_answer_is_a_box() -> None:
    true, predicted = overlays([0, 0, 500, 500], HOSTILE)
    assert (true.kind, true.width, true.height) == ("true", 50.0, 50.0)
    assert (predicted.left, predicted.top, predicted.width, predicted.height) == (10, 10, 50, 60)
    (_, skew) = overlays([0, 0, 500, 500], "<answer>(600,250),(100,700)</answer>")
    assert (skew.left, skew.top, skew.width, skew.height) == (10, 25, 50, 45)
    assert overlays("7", HOSTILE) == ()
    assert len(overlays([0, 0, 500, 500], "no box")) == 1
    assert len(overlays([0, 0, 500, 500], "<answer>(1,1),(9999,2)</answer>")) == 1


def test_the_gallery_shows_best_and_worst_of_groups_that_differ() -> None:
    flat = [{**rollout(1, 0.5), "id": "flat"} for _ in range(4)]
    mixed = [{**rollout(2, r / 10), "id": "mixed"} for r in range(8)]
    assert [r["reward"] for r in pick([*flat, *mixed], 24)] == [0.7, 0.6, 0.1, 0.0]
    assert pick([], 24) == []


def test_a_card_shows_scores_that_apply(run: Path) -> None:
    made = card(run, {**rollout(1, 0.75), "prompt": "<image>Where is <image>?"})
    assert made.prompt == "Where is <image>?"
    assert made.figures == (("boxes", "0.75"), ("advantage", "+0.25"))
    assert made.good
    assert made.pictures[0].startswith("data:image/png;base64,")
    assert len(card(run, rollout(1, 0.0, "x" * 5000)).completion) < 700


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


def test_a_text_with_other_line_breaks_loses_no_row(run: Path) -> None:
    rows = [rollout(1, 0.0, "one\u2028two\x85three"), rollout(1, 1.0, "four")]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    half = '{"stage": "gpg", "completion": "数'.encode()[:-1]
    (run / "rollouts.jsonl").write_bytes(text.encode() + half)
    html = write_report(run).read_text(encoding="utf-8")
    assert "three" in html
    assert "four" in html


def test_the_records_are_those_of_the_last_evaluation_only(run: Path) -> None:
    (line,) = (run / "evals.jsonl").read_text().splitlines()
    record = json.loads(line)
    write(
        run / "evals.jsonl",
        [{**record, "split": split, "output": f"of {split}"} for split in ("train", "test")],
    )
    html = write_report(run).read_text()
    assert "of test" in html
    assert "of train" not in html


def test_a_large_picture_is_shown_small(run: Path) -> None:
    noise_image(1600, 800).save(run / "images" / "x.png")
    (uri,) = card(run, rollout(1, 0.5)).pictures
    with Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) as shown:
        assert shown.size == (480, 240)
    (run / "images" / "x.png").write_bytes(b"half")
    assert card(run, rollout(1, 0.5)).pictures == ()


def test_a_figure_that_was_not_a_number_is_left_out(run: Path) -> None:
    row = {**rollout(1, 0.5), "advantage": None}
    assert card(run, row).figures == (("boxes", "0.50"),)
    write(run / "metrics.jsonl", [{"stage": "gpg", "step": s, "loss": None} for s in (1, 2)])
    assert "Loss" not in write_report(run).read_text()


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


def test_a_gain_is_over_the_evaluation_before_and_significant_only_without_zero(run: Path) -> None:
    evals, values = [], []
    for step, (stage, own) in enumerate({"init": 1, "sft": 3, "gpg": 3}.items()):
        score = {"correct": own, "n": 4, "score": own / 4, "ci": [0.0, 1.0]}
        what = {"stage": stage, "step": step, "split": "test"}
        evals.append({**what, "scores": {"ground": score}})
        values.append({**what, "values": {"ground": [1.0] * own + [0.0] * (4 - own)}})
    (run / "summary.json").write_text(json.dumps({"evals": evals}))
    write(run / "values.jsonl", values)
    init, sft, gpg = read_run(run).table
    assert (init.gain, sft.gain, gpg.gain) == (None, 0.5, 0.0)
    assert not gpg.significant
    assert not sft.significant  # [0, 1]: four records
    assert replace(sft, gain_ci=(0.01, 1.0)).significant
    assert replace(sft, gain_ci=(-1.0, -0.01)).significant


def test_the_worst_records_are_those_that_earned_less_than_the_best(run: Path) -> None:
    record = json.loads((run / "evals.jsonl").read_text())
    rows = [
        {**record, "output": said, "scores": {"choice": score, "count": None}}
        for said, score in (("right one", 1.0), ("wrong one", 0.0), ("right two", 1.0))
    ]
    write(run / "evals.jsonl", rows)
    best, worst = sections(run)
    assert ("wrong one" in worst, "right one" in worst, "right two" in worst) == (
        True,
        False,
        False,
    )
    assert best.index("right one") < best.index("right two") < best.index("wrong one")
    write(run / "evals.jsonl", rows[::2])
    assert "Last evaluation: records, which all earned the same" in write_report(run).read_text()


def sections(run: Path) -> tuple[str, str]:
    """What stands under "best" and under "worst"."""
    html = write_report(run).read_text()
    worst, _, best = html.partition("Last evaluation: best")
    return best, worst.partition("Last evaluation: worst")[2]


def test_a_stage_starts_its_own_curve_and_has_its_own_loss(run: Path) -> None:
    stages = [("sft", 0, 2), ("gpg", 2, 4)]
    points = [(1, 8.0), (2, 8.0), (3, 2.0), (4, 2.0)]
    svg = draw(Chart(title="t", points=points, stages=stages))
    means = re.findall(r'<path class="mean" d="M([^"]*)"', svg)
    heights = [{point.split(",")[1] for point in own.split("L")} for own in means]
    assert [len(own) for own in heights] == [1, 1]  # level within a stage: no mean runs on
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
