"""The pack: its samples and their ids, its metrics, and that they do not load the engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from vlrft.tasks.alfworld import task
from vlrft.tasks.alfworld.families import FAMILIES
from vlrft.tasks.alfworld.options import Options

from vlrft.schema import DataError, Record, Sample
from vlrft.schema.errors import PluginError

GAME = '{"pddl_domain": "", "solvable": true, "walkthrough": []}'


def write_game(
    folder: Path, split: str, name: str, trial: str = "trial_T1", content: str = GAME
) -> Path:
    path = folder / split / name / trial / "game.tw-pddl"
    path.parent.mkdir(parents=True)
    path.write_text(content, encoding="utf-8")
    return path


def load(folder: Path, split: str = "train", **options: Any) -> list[Sample]:
    return list(task.load(split, Options(data=str(folder), **options)))


def test_a_game_is_a_sample(tmp_path: Path) -> None:
    path = write_game(tmp_path, "valid_seen", "pick_heat_then_place_in_recep-Egg-None-Fridge-12")
    (sample,) = load(tmp_path, "valid_seen", history=3, prompt="short")
    assert sample.id == "alfworld/valid_seen/0000-pick_heat_then_place_in_recep-Egg-None-Fridge-12"
    assert sample.tags == {"kind": "pick_heat_then_place_in_recep"}
    assert sample.info == {
        "game": str(path),
        "prompt": "short",
        "context": "rebuilt",
        "history": 3,
        "max_steps": 50,
        "invalid": "unreadable",
        "expert": "planner",
        "thoughts": False,
        "copy": 0,
    }


def test_samples_come_in_the_order_of_their_trials(tmp_path: Path) -> None:
    write_game(tmp_path, "train", f"{FAMILIES[5]}-Pen-None-Desk-1", "trial_T2")
    write_game(tmp_path, "train", f"{FAMILIES[0]}-Pen-None-Desk-1", "trial_T3")
    write_game(tmp_path, "train", f"{FAMILIES[2]}-Pen-None-Desk-1", "trial_T1")
    assert [s.tags["kind"] for s in load(tmp_path)] == [FAMILIES[2], FAMILIES[5], FAMILIES[0]]
    (sample,) = load(tmp_path, families=(FAMILIES[0],))
    assert sample.id.startswith("alfworld/train/0002-")


def test_games_that_alfworld_skips_are_no_samples(tmp_path: Path) -> None:
    write_game(tmp_path, "train", f"{FAMILIES[0]}-Pen-None-Desk-1")
    write_game(tmp_path, "train", "pick_and_place_with_movable_recep-Pen-Mug-Desk-1")
    write_game(tmp_path, "train", f"{FAMILIES[0]}-AppleSliced-None-Desk-1")
    write_game(tmp_path, "train", f"{FAMILIES[0]}-Mug-None-Desk-1", content='{"solvable": false}')
    write_game(tmp_path, "train", f"{FAMILIES[0]}-Cup-None-Desk-1", content='{"grammar": ""}')
    assert len(load(tmp_path)) == 1


def test_the_error_names_a_truncated_file(tmp_path: Path) -> None:
    path = write_game(tmp_path, "train", f"{FAMILIES[0]}-Pen-None-Desk-1", content=GAME[:-4])
    with pytest.raises(DataError, match="damaged, its end is missing") as caught:
        load(tmp_path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        (None, "options.data is not set; generate games with `vlrft data prepare alfworld --count"),
        ("none", "no such folder; generate games with `vlrft data prepare alfworld --count"),
        (".", "no solvable game of pick_and_place_simple"),
        (
            "other",
            r"no train split; looked for \(1\) train/TASK/TRIAL/game.tw-pddl; \(2\) json_2.1.1/train/.*; found logic/; "
            "alfworld-download fetches",
        ),
        ("trials", "no solvable game of .*; it has ALFRED's trajectories without game.tw-pddl"),
    ],
)
def test_the_error_without_games_says_how_to_generate_them(
    folder: str | None, message: str, tmp_path: Path
) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "other" / "logic").mkdir(parents=True)
    trial = tmp_path / "trials" / "json_2.1.1" / "train" / "look" / "trial"
    trial.mkdir(parents=True)
    (trial / "traj_data.json").touch()
    data = None if folder is None else str(tmp_path / folder)
    with pytest.raises(DataError, match=message):
        task.load("train", Options(data=data))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"families": []}, "families is empty"),
        ({"families": ["pick"]}, "pick_and_place_simple"),
        ({"history": -1}, "history\n.*at least 0"),
        ({"max_steps": 0}, "max_steps\n.*at least 1"),
        ({"prompt": "long"}, "released"),
        ({"step": 1}, "step"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TypeAdapter(task.options).validate_python(options)


def test_metrics_of_an_evaluation() -> None:
    def record(name: str, kind: str, won: float, steps: float) -> Record:
        scores = {"won": won, "steps": steps, "valid": 0.5, "admissible": 0.25}
        return Record(
            id=name, output="", grades={"strict": won}, scores=scores, tags={"kind": kind}
        )

    assert task.metrics is not None
    episodes = [("a", 1.0, 4.0), ("a", 0.0, 50.0), ("b", 0.0, 50.0), ("b", 0.0, 50.0)]
    kinds = {"a": FAMILIES[0], "b": FAMILIES[1]}
    metrics = task.metrics(
        [record(n, kinds[n], won, steps) for n, won, steps in episodes], "strict"
    )
    assert list(metrics) == ["success", FAMILIES[0], FAMILIES[1], "steps", "valid", "admissible"]
    assert metrics["success"].values == (0.5, 0.0)
    assert metrics["success"].trials == 2
    assert metrics[FAMILIES[0]].values == (0.5,)
    assert (metrics["steps"].values, metrics["steps"].share) == ((27.0, 50.0), False)
    assert (metrics["valid"].values, metrics["valid"].share) == ((0.5, 0.5), True)
    assert metrics["admissible"].values == (0.25, 0.25)


def test_metrics_of_outputs_without_an_episode() -> None:
    assert task.metrics is not None
    bare = Record(id="a", output="", grades={"strict": 1.0}, tags={"kind": FAMILIES[0]})
    assert list(task.metrics([bare], "strict")) == ["success", FAMILIES[0]]


def test_samples_are_read_without_the_engine(tmp_path: Path) -> None:
    write_game(tmp_path, "train", f"{FAMILIES[0]}-Pen-None-Desk-1")
    code = (
        "import sys; from vlrft.tasks.alfworld import task\n"
        "from vlrft.tasks.alfworld.options import Options\n"
        "assert len(task.load('train', Options(data=sys.argv[1]))) == 1\n"
        "print(*{'textworld', 'alfworld', 'fast_downward', 'torch'} & set(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert ran.stdout.strip() == ""


def test_a_missing_engine_is_one_line_that_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vlrft.tasks.alfworld import native

    game = '{"pddl_domain": "", "grammar": "", "pddl_problem": "", "solvable": true}'
    write_game(tmp_path, "train", f"{FAMILIES[0]}-Pen-None-Desk-1", content=game)
    (sample,) = load(tmp_path)
    assert task.env is not None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    native.require_engine.cache_clear()
    for needs_it in (task.env(sample).start, lambda: load(tmp_path)):
        with pytest.raises(PluginError, match=r"^task alfworld .*pip install 'vlrft\[alfworld\]'$"):
            needs_it()
