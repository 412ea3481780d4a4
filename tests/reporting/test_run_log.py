"""The files of a run: steps, evaluations, resuming, time, failures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reporting.logs import evaluation, lines, log, pictured
from vlrft.distributed.ranks import Ranks
from vlrft.testing.small_policies import group


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


def test_an_evaluation_is_written_to_the_summary_and_in_full(tmp_path: Path) -> None:
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
            "scores": {
                "classify": {
                    "correct": 1,
                    "n": 2,
                    "score": 0.25,
                    "ci": [0.0, 1.0],
                    "ci_method": "wilson",
                    "threshold": 1.0,
                }
            },
        }
    ]
    assert "evaluation" in summary["seconds"]
    assert lines(tmp_path, "evals.jsonl")[0]["output"] == "7"
    assert lines(tmp_path, "values.jsonl")[0]["values"] == {"classify": [0.25, 0.25]}


def test_resuming_removes_later_steps_and_a_half_written_line(tmp_path: Path) -> None:
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


def test_resuming_on_another_rank_touches_no_file(tmp_path: Path) -> None:
    log(tmp_path).step("gpg", 5, {"lr": 1.0}, [], [])
    log(tmp_path, ranks=Ranks(rank=1)).resume_from(1, fresh=False)
    assert len(lines(tmp_path, "metrics.jsonl")) == 1


def test_time_is_booked_by_stage_and_continues_after_a_resume(
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


def test_each_failed_episode_is_reported_and_a_failed_reward_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = group("a", [0.0, 0.0])
    errors = {"environment": "sample a: gone", "slow": "reward slow took too long"}
    scores = {"slow": 0.0}
    broken = replace(
        one, rollouts=tuple(replace(r, errors=errors, scores=scores) for r in one.rollouts)
    )
    run = log(tmp_path)
    assert run.report_failures([broken, one]) == [broken, one]
    run.close()
    messages = capsys.readouterr().err.splitlines()
    assert messages.count("sample a: gone") == 2
    assert sum("took too long; it counts 0.0" in line for line in messages) == 1


def test_a_resumed_run_says_which_steps_its_metrics_lack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f'{{"stage": "gpg", "step": {k}}}\n' for k in (2, 5, 6, 9, 11)))
    log(tmp_path).resume_from(10, fresh=False)
    assert "has no rows of the steps 1, 3 to 4, 7 to 8, 10: the report" in capsys.readouterr().err


def test_a_resumed_run_whose_metrics_are_whole_says_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f'{{"stage": "gpg", "step": {k}}}\n' for k in (1, 2, 3)))
    log(tmp_path).resume_from(2, fresh=False)
    log(tmp_path).resume_from(0, fresh=True)
    assert capsys.readouterr().err == ""
