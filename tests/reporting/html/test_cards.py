"""Cards of rollouts and records."""

from __future__ import annotations

import base64
import io
from pathlib import Path

from PIL import Image

from tests.reporting.html.runs import HOSTILE, rollout, write
from vlrft.reporting.html.cards import box_overlays, make_card, pick_rollouts
from vlrft.reporting.html.page import write_report
from vlrft.testing.small_policies import noise_image


def test_boxes_are_drawn_in_percent_and_only_where_the_answer_is_a_box() -> None:
    true, predicted = box_overlays([0, 0, 500, 500], HOSTILE)
    assert (true.kind, true.width, true.height) == ("true", 50.0, 50.0)
    assert (predicted.left, predicted.top, predicted.width, predicted.height) == (10, 10, 50, 60)
    (_, skew) = box_overlays([0, 0, 500, 500], "<answer>(600,250),(100,700)</answer>")
    assert (skew.left, skew.top, skew.width, skew.height) == (10, 25, 50, 45)
    assert box_overlays("7", HOSTILE) == ()
    assert len(box_overlays([0, 0, 500, 500], "no box")) == 1
    assert len(box_overlays([0, 0, 500, 500], "<answer>(1,1),(9999,2)</answer>")) == 1


def test_the_gallery_shows_best_and_worst_of_groups_that_differ() -> None:
    flat = [{**rollout(1, 0.5), "id": "flat"} for _ in range(4)]
    mixed = [{**rollout(2, r / 10), "id": "mixed"} for r in range(8)]
    assert [r["reward"] for r in pick_rollouts([*flat, *mixed], 24)] == [0.7, 0.6, 0.1, 0.0]
    assert pick_rollouts([], 24) == []


def test_a_card_shows_scores_that_apply(run: Path) -> None:
    made = make_card(run, {**rollout(1, 0.75), "prompt": "<image>Where is <image>?"})
    assert made.prompt == "Where is <image>?"
    assert made.scores == (("boxes", "0.75"), ("advantage", "+0.25"))
    assert made.good
    assert made.images[0].startswith("data:image/png;base64,")
    assert len(make_card(run, rollout(1, 0.0, "x" * 5000)).completion) < 700


def test_a_large_picture_is_shown_small(run: Path) -> None:
    noise_image(1600, 800).save(run / "images" / "x.png")
    (uri,) = make_card(run, rollout(1, 0.5)).images
    with Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) as shown:
        assert (shown.size, shown.format) == ((480, 240), "JPEG")  # noise is a large PNG
    (run / "images" / "x.png").write_bytes(b"half")
    assert make_card(run, rollout(1, 0.5)).images == ()


def test_a_value_that_was_not_a_number_is_left_out(run: Path) -> None:
    row = {**rollout(1, 0.5), "advantage": None}
    assert make_card(run, row).scores == (("boxes", "0.50"),)
    write(run / "metrics.jsonl", [{"stage": "gpg", "step": s, "loss": None} for s in (1, 2)])
    assert "Loss" not in write_report(run).read_text()
