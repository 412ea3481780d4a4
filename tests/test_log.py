from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import group, noise_image, sample
from vlrft.evaluate import Evaluation, Figure
from vlrft.log import RunLog
from vlrft.log import trackers as trackers_module
from vlrft.log.trackers import TrackerError
from vlrft.schema import Group, Record


def log(run: Path, **settings: Any) -> RunLog:
    return RunLog(run, task="toy", algorithm="gpg", seed=3, total_steps=5, **settings)


def pictured() -> Group:
    made = group("a", [0.0, 1.0])
    asked = sample("a", "7", kind="classify")
    image = noise_image(8, 8)
    return Group(
        sample=type(asked)(
            id="a", messages=asked.messages, images=(image,), answer="7", tags=asked.tags
        ),
        rollouts=made.rollouts,
    )


def lines(run: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / name).read_text().splitlines()]


def evaluation(score: float) -> Evaluation:
    figure = Figure(correct=1, n=2, score=score, ci=(0.0, 1.0), values=(score, score))
    record = Record(id="a", output="7", scores={"choice": 1.0}, tags={"kind": "classify"})
    return Evaluation(scores={"classify": figure}, records=(record,))


def test_a_step_writes_its_metrics_and_a_few_groups(tmp_path: Path) -> None:
    run = log(tmp_path, rollouts_per_step=1)
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
    run = log(tmp_path, rank=1)
    run.step("gpg", 1, {"lr": 1.0}, [group("a", [1.0])], [[0.0]])
    run.message("hello")
    run.close()
    assert list(tmp_path.iterdir()) == []


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
