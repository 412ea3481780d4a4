"""Preparing decodes videos as a run does, so that damage inside of them is met there and not in a run."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.data.prepared import prepare_rows
from tests.vision.video.test_decode import cut
from vlrft.data import Clip, Row
from vlrft.data.clips import measure_clip
from vlrft.testing.small_videos import shades, write_video
from vlrft.vision.video.frames import FrameRule

pytest.importorskip("av")


def test_videos_that_are_damaged_inside_are_left_out_and_each_is_decoded_once(
    tmp_path: Path,
) -> None:
    paths = {
        "whole": write_video(tmp_path / "whole.mp4", shades(8)),
        "damaged": cut(tmp_path / "damaged.mkv", skip=7),
    }
    opened: Counter[str] = Counter()

    def row(number: int, kind: str) -> Row:
        def read() -> BinaryIO:
            opened[kind] += 1
            return paths[kind].open("rb")

        clip = Clip(name=paths[kind].name, open=read)
        return Row(id=f"train/{number}", question="When?", answer="", videos=(clip,))

    rows = [row(0, "whole"), row(1, "damaged"), row(2, "damaged")]
    measure_clip(rows[1].videos[0])  # its packets are all there
    opened.clear()
    rule = FrameRule(max_frames=4, min_pixels=784, max_pixels=784)
    prepared = prepare_rows(rows, tmp_path / "ready", frames=rule)
    assert (prepared.rows, prepared.defects) == (1, {"video missing or unreadable": 2})
    assert opened["damaged"] == 1
    listed = (tmp_path / "ready" / "t.defects.jsonl").read_text().splitlines()
    details = {d["id"]: d["detail"] for d in map(json.loads, listed)}
    assert list(details) == ["train/1", "train/2"]
    assert all("it was cut between key frames" in detail for detail in details.values())
