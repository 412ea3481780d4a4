"""Rollouts and evaluation records as JSON lines."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.fakes.thread_ranks import run_thread_ranks
from tests.reporting.logs import evaluation, lines, log, pictured, turns
from vlrft.distributed.ranks import Ranks
from vlrft.evaluation.evaluate import Evaluation
from vlrft.schema import Group, Piece, Prompt, Record, Rollout, TrainingRow, Turn
from vlrft.testing.small_policies import group, noise_image, sample


def test_images_of_turns_are_saved_by_the_rank_that_played_the_episode(tmp_path: Path) -> None:
    def make_group(rank: int, here: bool) -> Group:
        images = (noise_image(8, 8, seed=rank),) if here else ()
        piece = Piece(ids=(1,), text="up", turn=Turn(shown="room", images=images))
        row = TrainingRow(prompt=Prompt(ids=()), pieces=(piece,))
        room = sample(f"room {rank}")
        return Group(sample=room, rollouts=(Rollout(sample=room, rows=(row,)),), rank=rank)

    def step(ranks: Ranks) -> None:
        groups = [make_group(rank, rank == ranks.rank) for rank in (0, 1)]
        log(tmp_path, ranks=ranks).step("gpg", 1, {}, groups, [[0.0]] * 2, [[[0.0]]] * 2)

    run_thread_ranks(2, step)
    paths = [row["turns"][0]["images"] for row in lines(tmp_path, "rollouts.jsonl")]
    assert len(set(map(tuple, paths))) == 2
    assert all((tmp_path / name).is_file() for (name,) in paths)


def test_text_of_any_kind_is_written_and_read_back_whole(tmp_path: Path) -> None:
    odd = 'line\u2028break\x85 and a lone \ud800, "数字"\n'
    run = log(tmp_path)
    made = replace(group("a", [1.0]), sample=sample("a", odd))
    run.step("gpg", 1, {"lr": 1.0}, [made], [[0.0]])
    run.step("gpg", 2, {"lr": 1.0}, [made], [[0.0]])
    run.resume_from(1, fresh=False)
    written = (tmp_path / "rollouts.jsonl").read_text(encoding="utf-8")
    (line, end) = written.split("\n")
    assert json.loads(line)["answer"] == odd
    assert "数字" in line
    assert end == ""


def test_a_line_cut_within_a_character_is_dropped(tmp_path: Path) -> None:
    run = log(tmp_path)
    run.step("gpg", 1, {"lr": 1.0}, [group("数字", [1.0])], [[0.0]])
    whole = (tmp_path / "rollouts.jsonl").read_bytes()
    half = whole[: whole.index("字".encode()) + 1]
    (tmp_path / "rollouts.jsonl").write_bytes(whole + half)
    run.resume_from(1, fresh=False)
    assert (tmp_path / "rollouts.jsonl").read_bytes() == whole


def test_images_are_saved_for_a_limited_number_of_records_of_a_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.reporting.rows.RECORDS_WITH_IMAGES", 2)
    kinds = ["x", "x", "x", "y"]
    records = tuple(Record(id="a", output="", scores={}, tags={"kind": k}) for k in kinds)
    value = evaluation(0.5).scores["classify"]
    result = Evaluation(graded={"strict": {"x": value}}, records=records)
    log(tmp_path).evaluation("gpg", 1, "test", result, [pictured().sample] * 4)
    assert [len(r["images"]) for r in lines(tmp_path, "evals.jsonl")] == [1, 1, 0, 1]


def test_an_answer_without_a_json_form_is_written_as_text(tmp_path: Path) -> None:
    made = replace(group("a", [1.0]), sample=sample("a", {"box": np.array([1, 2])}))
    run = log(tmp_path)
    run.step("gpg", 1, {}, [made], [np.zeros(1)])
    made = replace(made, sample=sample("a", Fraction(1, 3)))
    run.step("gpg", 2, {}, [made], [np.zeros(1)])
    assert [r["answer"] for r in lines(tmp_path, "rollouts.jsonl")] == [{"box": [1, 2]}, "1/3"]


def test_images_are_saved_for_the_worst_and_the_best_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.reporting.rows.RECORDS_WITH_IMAGES", 2)
    records = tuple(
        Record(id="a", output="", scores={"iou": score, "count": None}, tags={"kind": "x"})
        for score in (0.5, 0.6, 0.9, 0.1)
    )
    value = evaluation(0.5).scores["classify"]
    result = Evaluation(graded={"strict": {"x": value}}, records=records)
    log(tmp_path).evaluation("gpg", 1, "test", result, [pictured().sample] * 4)
    assert [len(r["images"]) for r in lines(tmp_path, "evals.jsonl")] == [0, 0, 1, 1]


def test_an_episode_is_written_turn_by_turn(tmp_path: Path) -> None:
    pieces = [Piece(ids=(1,), text=text, turn=turn) for text, turn in turns("a door", "a hall")]
    rows = tuple(TrainingRow(prompt=Prompt(ids=(2,)), pieces=(piece,)) for piece in pieces)
    errors = {"environment": "sample a: its environment raised"}
    one = Rollout(sample=sample("a"), rows=rows, errors=errors, ended="error")
    played = Group(sample=sample("a"), rollouts=(one, replace(one, rows=())))
    run = log(tmp_path)
    run.step(
        "gpg", 1, {}, [played, group("b", [1.0])], [[0.5, 0.0], [0.0]], [[[0.25, 0.75], []], [[]]]
    )
    run.close()
    first, never, single = lines(tmp_path, "rollouts.jsonl")
    picture = first["turns"][0]["images"]
    assert (tmp_path / picture[0]).is_file()
    assert first["turns"] == [
        {"shown": "a door", "images": picture, "said": "to a door", "reward": 0.5, "valid": True, "advantage": 0.25},
        {"shown": "a hall", "images": [], "said": "to a hall", "reward": 0.75, "valid": False, "advantage": 0.75},
    ]  # fmt: skip
    assert (first["ended"], first["errors"], first["advantage"]) == ("error", errors, 0.5)
    for row in (never, single):
        assert not {"turns", "ended"} & row.keys()


def test_an_episode_of_an_evaluation_is_written_turn_by_turn(tmp_path: Path) -> None:
    result = evaluation(0.25)
    errors = {"environment": "sample a: its environment raised"}
    played = replace(result.records[0], turns=turns("a door", "a hall"), errors=errors)
    run = log(tmp_path)
    run.evaluation("init", 0, "test", replace(result, records=(played,)), [pictured().sample])
    run.close()
    (row,) = lines(tmp_path, "evals.jsonl")
    assert [t["said"] for t in row["turns"]] == ["to a door", "to a hall"]
    assert [len(t["images"]) for t in row["turns"]] == [1, 0]
    assert [t["reward"] for t in row["turns"]] == [0.5, 0.75]
    assert all("advantage" not in t for t in row["turns"])
    assert row["errors"] == errors


def test_images_of_episodes_are_saved_by_their_grade_and_not_by_their_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.reporting.rows.RECORDS_WITH_IMAGES", 2)
    records = [
        Record(
            id="a",
            output="",
            grades={"strict": won},
            scores={"won": won, "steps": steps},
            turns=(("up", Turn()),),
        )
        for won, steps in ((0.0, 3.0), (1.0, 2.0), (0.5, 1.0), (0.5, 9.0))
    ]
    result = replace(evaluation(0.5), records=tuple(records))
    log(tmp_path).evaluation("gpg", 1, "test", result, [pictured().sample] * 4)
    saved = [bool(row["images"]) for row in lines(tmp_path, "evals.jsonl")]
    assert saved == [True, True, False, False]


def test_a_rollout_says_between_which_steps_it_was_sampled(tmp_path: Path) -> None:
    (rollout,) = group("a", [1.0], [[7, 8, 9]]).rollouts
    (row,) = rollout.rows
    piece = replace(row.pieces[0], policy_steps=(3, 3, 4))
    stale = replace(rollout, rows=(replace(row, pieces=(piece,)),))
    both = Group(sample=rollout.sample, rollouts=(rollout, stale))
    log(tmp_path).step("gpg", 1, {}, [both], [[0.0, 0.0]], [[[], []]])
    plain, told = lines(tmp_path, "rollouts.jsonl")
    assert "policy_steps" not in plain
    assert told["policy_steps"] == [3, 4]
