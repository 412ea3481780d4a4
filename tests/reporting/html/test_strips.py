"""Strips of videos on pages, with the gold and the predicted segment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.reporting.html.runs import rollout
from tests.reporting.logs import lines, log
from vlrft.reporting.html.cards import make_card
from vlrft.reporting.html.contact_sheet import describe_sample, describe_samples, write_sheet
from vlrft.reporting.html.evaluation_page import make_card as make_record_card
from vlrft.reporting.html.segments import segment_overlays
from vlrft.reporting.strips import draw_strip
from vlrft.schema import VIDEO, Frames, Message, Record, Sample
from vlrft.testing.small_policies import group
from vlrft.testing.small_videos import STEP, shades


def video(count: int = 16, height: int = 24) -> Frames:
    return Frames(
        pictures=shades(count, 32, height),
        indices=range(count),
        seconds=[k / 2 for k in range(count)],
        source_fps=2.0,
        source_seconds=count / 2,
    )


def clip() -> Sample:
    return Sample(
        id="clip",
        messages=(Message(role="user", content=(VIDEO, "When?")),),
        videos=(video(),),
        answer=[2.0, 6.0],
        tags={"answer": "segment"},
    )


def spans(text: str, answer: object = (2.0, 6.0)) -> list[tuple[str, float, float]]:
    return [(o.kind, o.left, o.width) for o in segment_overlays(answer, text, 8.0)]


def test_a_strip_has_a_frame_for_each_eighth_of_the_time() -> None:
    strip = draw_strip(video())
    assert strip.size == (8 * 32, 24)
    shown = [strip.getpixel((k * 32 + 16, 12)) for k in range(8)]
    assert [p[0] // STEP for p in shown if isinstance(p, tuple)] == [1, 3, 5, 7, 9, 11, 13, 15]
    assert draw_strip(video(3)).size == (3 * 32, 24)
    assert draw_strip(video(4, height=960)).size == (4 * 3, 96)


def test_of_a_variable_rate_a_strip_shows_what_is_on_screen() -> None:
    still = replace(video(4), seconds=[0.0, 0.1, 0.2, 7.9], source_fps=0.5, source_seconds=8.0)
    strip = np.asarray(draw_strip(still))[12, 16::32, 0]
    assert (strip // STEP).tolist() == [2, 2, 2, 2]


def test_segments_are_marked_in_percent_of_the_time() -> None:
    assert spans("") == [("true", 25.0, 50.0)]
    for text in ("4, 8", "4-8", "[4, 8]", "4 to 8", "it is from 4.0 to 8 seconds"):
        assert spans(f"<answer>{text}</answer>")[1:] == [("predicted", 50.0, 50.0)], text
    assert spans("<answer>6 to 99</answer>")[1:] == [("predicted", 75.0, 25.0)]
    for text in ("8 to 4", "9 to 12", "no", "", "4"):
        assert len(spans(f"<answer>{text}</answer>")) == 1, text
    assert spans("<answer>4, 8</answer>", answer="7") == []
    assert spans("<answer>4, 8</answer>", answer=[1, 2, 3, 4]) == []


def test_a_run_saves_strips_and_its_report_marks_segments_on_them(tmp_path: Path) -> None:
    made = replace(group("clip", [1.0]), sample=clip())
    log(tmp_path).step("gpg", 1, {}, [made], [[0.0]])
    (row,) = lines(tmp_path, "rollouts.jsonl")
    (strip,) = row["strips"]
    assert (strip["seconds"], (tmp_path / strip["image"]).is_file()) == (8.0, True)
    card = make_card(tmp_path, {**row, "completion": "<answer>4 to 8</answer>"})
    assert [segment.kind for segment in card.strips[0].segments] == ["true", "predicted"]
    assert (card.images, card.prompt) == ((), "When?")
    assert make_card(tmp_path, rollout(1, 0.5)).strips == ()


def test_an_evaluation_and_a_contact_sheet_show_strips(tmp_path: Path) -> None:
    record = Record(
        id="clip", output="<answer>4 to 8</answer>", grades={"strict": 0.5}, answer=[2, 6]
    )
    card = make_record_card(record, clip(), {})
    assert [len(strip.segments) for strip in card.strips] == [2]
    assert card.strips[0].image.startswith("data:image/png;base64,")
    write_sheet(tmp_path / "sheet.html", "clips", [("test", [clip()])])
    page = (tmp_path / "sheet.html").read_text(encoding="utf-8")
    assert "left:25.0%;top:0;width:50.0%" in page


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (describe_sample(clip())[-1], "    video: 16 frames of 32 × 24, 8 seconds"),
        (describe_samples([clip()])[-2], "  videos a sample: 1 (1)"),
        (describe_samples([clip()])[-1], "  frames a video: 16 to 16 (median 16)"),
    ],
)
def test_samples_with_videos_are_described(said: str, expected: str) -> None:
    assert said == expected
