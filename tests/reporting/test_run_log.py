from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.fakes.policies import group, noise_image, sample
from tests.fakes.thread_ranks import run_thread_ranks
from vlrft.distributed.ranks import Ranks
from vlrft.evaluation.evaluate import Evaluation, MetricValue
from vlrft.reporting import trackers as trackers_module
from vlrft.reporting.console import Console
from vlrft.reporting.files import Pictures
from vlrft.reporting.run_log import RunLog
from vlrft.schema import Group, Piece, Prompt, Record, Rollout, TrainingRow, Turn
from vlrft.schema.errors import TrackerError


def log(run: Path, **settings: Any) -> RunLog:
    return RunLog(run, task="toy", algorithm="gpg", seed=3, total_steps=5, **settings)


def pictured() -> Group:
    asked = replace(sample("a", "7", kind="classify"), images=(noise_image(8, 8),))
    return replace(group("a", [0.0, 1.0]), sample=asked)


def lines(run: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / name).read_text().splitlines()]


def evaluation(score: float) -> Evaluation:
    figure = MetricValue(correct=1, n=2, score=score, ci=(0.0, 1.0), values=(score, score))
    record = Record(id="a", output="7", scores={"choice": 1.0}, tags={"kind": "classify"})
    return Evaluation(graded={"strict": {"classify": figure}}, records=(record,))


def test_a_step_writes_its_metrics_and_a_few_groups(tmp_path: Path) -> None:
    run = log(tmp_path, groups_per_step=1)
    run.step(
        "gpg",
        1,
        {"loss": float("nan"), "lr": 0.5},
        [pictured(), group("b", [1.0])],
        [[-0.5, 0.5], [0.0]],
    )
    run.close()
    assert lines(tmp_path, "metrics.jsonl") == [
        {"stage": "gpg", "step": 1, "loss": None, "lr": 0.5}
    ]
    rollouts = lines(tmp_path, "rollouts.jsonl")
    assert [r["advantage"] for r in rollouts] == [-0.5, 0.5]
    assert rollouts[0]["answer"] == "7"
    assert rollouts[0]["images"] == rollouts[1]["images"]
    assert (tmp_path / rollouts[0]["images"][0]).is_file()
    assert len(list((tmp_path / "images").iterdir())) == 1


def test_an_evaluation_stands_in_the_summary_and_in_full(tmp_path: Path) -> None:
    run = log(tmp_path)
    run.evaluation("init", 0, "test", evaluation(0.25), [pictured().sample])
    run.close()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert {"task", "algorithm", "seed", "seconds", "versions", "evals"} <= set(summary)
    assert summary["evals"] == [
        {
            "stage": "init",
            "step": 0,
            "split": "test",
            "scores": {"classify": {"correct": 1, "n": 2, "score": 0.25, "ci": [0.0, 1.0]}},
        }
    ]
    assert "evaluation" in summary["seconds"]
    assert lines(tmp_path, "evals.jsonl")[0]["output"] == "7"
    assert lines(tmp_path, "values.jsonl")[0]["values"] == {"classify": [0.25, 0.25]}


def test_resuming_forgets_what_came_after_and_a_half_written_line(tmp_path: Path) -> None:
    run = log(tmp_path)
    for step in (1, 2, 3):
        run.step("gpg", step, {"lr": 1.0}, [group("a", [1.0])], [[0.0]])
        run.evaluation("gpg", step, "test", evaluation(0.1 * step), [pictured().sample])
    run.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"stage": "gpg", "st')
    again = log(tmp_path)
    again.resume_from(2, fresh=False)
    again.close()
    for name in ("metrics.jsonl", "rollouts.jsonl", "evals.jsonl", "values.jsonl"):
        assert [row["step"] for row in lines(tmp_path, name)] == [1, 2]
    assert [e["step"] for e in again.summary["evals"]] == [1, 2]
    fresh = log(tmp_path)
    fresh.resume_from(0, fresh=True)
    assert lines(tmp_path, "metrics.jsonl") == []
    assert fresh.summary["evals"] == []


def test_other_ranks_write_nothing(tmp_path: Path) -> None:
    run = log(tmp_path, ranks=Ranks(rank=1))
    run.step("gpg", 1, {"lr": 1.0}, [group("a", [1.0])], [[0.0]])
    run.message("hello")
    run.close()
    assert list(tmp_path.iterdir()) == []


def test_pictures_of_turns_are_kept_by_the_ranks_that_played_them(tmp_path: Path) -> None:
    def played(rank: int, here: bool) -> Group:
        seen = (noise_image(8, 8, seed=rank),) if here else ()
        piece = Piece(ids=(1,), text="up", turn=Turn(shown="room", images=seen))
        row = TrainingRow(prompt=Prompt(ids=()), pieces=(piece,))
        asked = sample(f"room {rank}")
        return Group(sample=asked, rollouts=(Rollout(sample=asked, rows=(row,)),), rank=rank)

    def step(ranks: Ranks) -> None:
        groups = [played(rank, rank == ranks.rank) for rank in (0, 1)]
        log(tmp_path, ranks=ranks).step("gpg", 1, {}, groups, [[0.0]] * 2, [[[0.0]]] * 2)

    run_thread_ranks(2, step)
    shown = [row["turns"][0]["images"] for row in lines(tmp_path, "rollouts.jsonl")]
    assert len(set(map(tuple, shown))) == 2
    assert all((tmp_path / name).is_file() for (name,) in shown)


def test_tensorboard_gets_the_figures(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    run = log(tmp_path, trackers=["tensorboard"])
    run.step("gpg", 1, {"reward/mean": 0.5}, [group("a", [1.0])], [[0.0]])
    run.close()
    (events,) = (tmp_path / "tensorboard").iterdir()
    assert b"reward/mean" in events.read_bytes()


def test_a_tracker_that_is_not_installed_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(trackers_module, "import_module", missing)
    with pytest.raises(TrackerError, match=r"pip install 'vlrft\[wandb\]'"):
        log(tmp_path, trackers=["wandb"])


def test_hosted_trackers_are_spoken_to_through_one_interface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, ...]] = []

    class Fake:
        def init(self, **settings: str) -> None:
            calls.append(("init", settings["project"]))

        def log(self, metrics: dict[str, float], step: int) -> None:
            calls.append((metrics, step))

        def finish(self) -> None:
            calls.append(("finish",))

    monkeypatch.setattr(trackers_module, "import_module", lambda name: Fake())
    run = log(tmp_path, trackers=["trackio"])
    run.step("gpg", 4, {"lr": 1.0}, [group("a", [1.0])], [[0.0]])
    run.close()
    assert calls == [("init", "vlrft"), ({"lr": 1.0}, 4), ("finish",)]


def test_texts_of_any_kind_come_back_whole(tmp_path: Path) -> None:
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


def test_a_line_that_was_cut_within_a_letter_is_dropped(tmp_path: Path) -> None:
    run = log(tmp_path)
    run.step("gpg", 1, {"lr": 1.0}, [group("数字", [1.0])], [[0.0]])
    whole = (tmp_path / "rollouts.jsonl").read_bytes()
    half = whole[: whole.index("字".encode()) + 1]
    (tmp_path / "rollouts.jsonl").write_bytes(whole + half)
    run.resume_from(1, fresh=False)
    assert (tmp_path / "rollouts.jsonl").read_bytes() == whole


def test_a_picture_half_written_by_a_killed_run_is_not_taken_for_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(image: Image.Image, path: Path, **_: object) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    pictures = Pictures(tmp_path / "images")
    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "save", dies)
        with pytest.raises(KeyboardInterrupt):
            pictures.keep(noise_image(8, 8))
    with Image.open(tmp_path / pictures.keep(noise_image(8, 8))) as back:
        assert back.tobytes() == noise_image(8, 8).tobytes()
    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "save", dies)
        pictures.keep(noise_image(8, 8))  # is there: not written again
    assert pictures.keep(noise_image(8, 8, seed=1)) != pictures.keep(noise_image(8, 8))
    assert len(list((tmp_path / "images").glob("*.png"))) == 2


def test_records_of_a_kind_are_pictured_up_to_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.reporting.rows.PICTURED_RECORDS", 2)
    kinds = ["x", "x", "x", "y"]
    records = tuple(Record(id="a", output="", scores={}, tags={"kind": k}) for k in kinds)
    figure = evaluation(0.5).scores["classify"]
    found = Evaluation(graded={"strict": {"x": figure}}, records=records)
    log(tmp_path).evaluation("gpg", 1, "test", found, [pictured().sample] * 4)
    assert [len(r["images"]) for r in lines(tmp_path, "evals.jsonl")] == [1, 1, 0, 1]


def test_resuming_on_another_rank_touches_no_file(tmp_path: Path) -> None:
    log(tmp_path).step("gpg", 5, {"lr": 1.0}, [], [])
    log(tmp_path, ranks=Ranks(rank=1)).resume_from(1, fresh=False)
    assert len(lines(tmp_path, "metrics.jsonl")) == 1


def test_time_is_booked_by_stage_and_goes_on_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([0.0, 2.0, 5.0, 6.0, 100.0, 104.0, 104.0])
    monkeypatch.setattr("vlrft.reporting.run_log.time.perf_counter", lambda: next(now))
    run = log(tmp_path)
    run.step("sft", 1, {}, [], [])
    run.evaluation("sft", 1, "test", evaluation(0.1), [pictured().sample])
    run.close()
    again = log(tmp_path)
    again.resume_from(1, fresh=False)
    again.step("gpg", 2, {}, [], [])
    again.close()
    seconds = json.loads((tmp_path / "summary.json").read_text())["seconds"]
    assert seconds == {"sft": 2.0, "evaluation": 3.0, "other": 1.0, "gpg": 4.0, "total": 10.0}


def test_the_console_says_a_plain_line_with_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([100.0, 120.0, 140.0, 145.0, 160.0])
    monkeypatch.setattr("vlrft.reporting.console.time.monotonic", lambda: next(now))
    console = Console(10)
    figures = {"reward/mean": 0.51234, "loss": -0.25, "speed/rollout_tokens_s": 1200.0}
    for step in (5, 6, 7, 8):  # a run that was taken up after step 4
        console.step("gpg", step, figures)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "gpg step 5/10  reward 0.512  loss -0.25  1,200 tok/s  100 s left",
        "gpg step 6/10  reward 0.512  loss -0.25  1,200 tok/s  80 s left",
        "gpg step 8/10  reward 0.512  loss -0.25  1,200 tok/s  30 s left",
    ]
    fresh = iter([0.0, 10.0, 20.0])
    monkeypatch.setattr("vlrft.reporting.console.time.monotonic", lambda: next(fresh))
    console = Console(10)
    console.step("gpg", 1, {})
    console.step("gpg", 2, {})
    assert capsys.readouterr().err.splitlines()[1].endswith(" 80 s left")


def test_on_a_terminal_there_is_a_bar_and_messages_are_not_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    console = Console(4)
    assert console.progress is not None
    console.step("gpg", 2, {"loss": 0.5})
    console.say("[/bold] said as it is")
    console.close()
    console.say("after the end")
    said = capsys.readouterr().err
    assert "[/bold] said as it is" in said
    assert "2/4" in said
    assert "loss 0.5" in said
    assert said.endswith("after the end\n")


def test_an_answer_that_json_has_no_form_for_is_written_as_text(tmp_path: Path) -> None:
    made = replace(group("a", [1.0]), sample=sample("a", {"box": np.array([1, 2])}))
    run = log(tmp_path)
    run.step("gpg", 1, {}, [made], [np.zeros(1)])
    made = replace(made, sample=sample("a", Fraction(1, 3)))
    run.step("gpg", 2, {}, [made], [np.zeros(1)])
    assert [r["answer"] for r in lines(tmp_path, "rollouts.jsonl")] == [{"box": [1, 2]}, "1/3"]


def test_the_records_that_are_pictured_are_the_worst_and_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.reporting.rows.PICTURED_RECORDS", 2)
    records = tuple(
        Record(id="a", output="", scores={"iou": score, "count": None}, tags={"kind": "x"})
        for score in (0.5, 0.6, 0.9, 0.1)
    )
    figure = evaluation(0.5).scores["classify"]
    found = Evaluation(graded={"strict": {"x": figure}}, records=records)
    log(tmp_path).evaluation("gpg", 1, "test", found, [pictured().sample] * 4)
    assert [len(r["images"]) for r in lines(tmp_path, "evals.jsonl")] == [0, 0, 1, 1]


def turns(*shown: str) -> tuple[tuple[str, Turn], ...]:
    """What was said to these observations, the first with a picture; the last was no action."""
    made = [Turn(shown=text, reward=0.5) for text in shown[:-1]]
    made = [*made, Turn(shown=shown[-1], reward=1.0, penalty=0.25, valid=False)]
    made[0] = replace(made[0], images=(noise_image(8, 8),))
    return tuple((f"to {turn.shown}", turn) for turn in made)


def test_a_play_is_written_turn_by_turn(tmp_path: Path) -> None:
    said = turns("a door", "a hall")
    pieces = [Piece(ids=(1,), text=text, turn=turn) for text, turn in said]
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


def test_a_play_of_an_evaluation_is_written_turn_by_turn(tmp_path: Path) -> None:
    found = evaluation(0.25)
    errors = {"environment": "sample a: its environment raised"}
    played = replace(found.records[0], turns=turns("a door", "a hall"), errors=errors)
    run = log(tmp_path)
    run.evaluation("init", 0, "test", replace(found, records=(played,)), [pictured().sample])
    run.close()
    (row,) = lines(tmp_path, "evals.jsonl")
    assert [t["said"] for t in row["turns"]] == ["to a door", "to a hall"]
    assert [len(t["images"]) for t in row["turns"]] == [1, 0]
    assert [t["reward"] for t in row["turns"]] == [0.5, 0.75]
    assert all("advantage" not in t for t in row["turns"])
    assert row["errors"] == errors


def test_each_play_that_failed_is_told_and_a_reward_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = group("a", [0.0, 0.0])
    errors = {"environment": "sample a: gone", "slow": "reward slow took too long"}
    broken = replace(one, rollouts=tuple(replace(r, errors=errors) for r in one.rollouts))
    run = log(tmp_path)
    assert run.failures([broken, one]) == [broken, one]
    run.close()
    told = capsys.readouterr().err.splitlines()
    assert told.count("sample a: gone") == 2
    assert sum("took too long; it counts 0.0" in line for line in told) == 1


def test_plays_are_pictured_by_their_grade_and_not_by_how_long_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.reporting.rows.PICTURED_RECORDS", 2)
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
    found = replace(evaluation(0.5), records=tuple(records))
    log(tmp_path).evaluation("gpg", 1, "test", found, [pictured().sample] * 4)
    shown = [bool(row["images"]) for row in lines(tmp_path, "evals.jsonl")]
    assert shown == [True, True, False, False]
