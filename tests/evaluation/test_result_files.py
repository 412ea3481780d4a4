"""Records in files: they are read as they were written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from vlrft.evaluation.result_files import read_records, write_records
from vlrft.schema import DataError, Record, Turn
from vlrft.testing.small_policies import noise_image

RECORD = Record(
    id="a",
    output="left\nright",
    grades={"strict": 1.0, "official": 0.5},
    extracted="right",
    scores={"won": 1.0, "other": None},
    errors={"environment": "sample a: gone"},
    turns=(
        ("left", Turn(shown="a door", penalty=0.25, valid=False)),
        ("right", Turn(shown="a hall", reward=1.0)),
    ),
    tags={"kind": "near"},
    answer=[1, 2],
    info={"width": 3},
    truncated=True,
)


def test_an_episode_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "out.records.jsonl"
    write_records(path, [RECORD])
    write_records(path, [replace(RECORD, id="b", turns=(), errors={})])
    assert read_records(path) == [RECORD, replace(RECORD, id="b", turns=(), errors={})]
    first, second = map(json.loads, path.read_text().splitlines())
    assert first["turns"][0] == {
        "shown": "a door",
        "said": "left",
        "reward": 0.0,
        "penalty": 0.25,
        "valid": False,
    }
    assert not {"turns", "errors"} & second.keys()


def test_images_and_anchors_of_turns_are_not_written(tmp_path: Path) -> None:
    turn = Turn(shown="<image>", images=(noise_image(8, 8),), anchor=("a", 1), reward=1.0)
    write_records(tmp_path / "r.jsonl", [replace(RECORD, turns=(("up", turn),))])
    ((_, read),) = read_records(tmp_path / "r.jsonl")[0].turns
    assert read == replace(turn, images=(), anchor=None)


@pytest.mark.parametrize("field", ["said", "penalty", "shown"])
def test_a_turn_without_a_field_is_an_error_that_names_the_line(tmp_path: Path, field: str) -> None:
    path = tmp_path / "r.jsonl"
    write_records(path, [RECORD, RECORD])
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    del rows[1]["turns"][0][field]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(
        DataError, match=rf"r.jsonl, line 2: not a record of vlrft, it has no '{field}'"
    ):
        read_records(path)
