"""Making games: what a game is a function of, what is kept, what is refused, and that the stock engine agrees."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from vlrft.tasks.alfworld import games as making
from vlrft.tasks.alfworld.families import FAMILIES, SCENES, SPLITS
from vlrft.tasks.alfworld.folder import games

from tests.tasks.alfworld.made import MADE, contents, made
from tests.tasks.alfworld.stock import play_stock
from vlrft.cli.main import main
from vlrft.schema import DataError

pytestmark = pytest.mark.usefixtures("data")


def test_families_come_in_turn_and_each_game_says_how_it_is_won(data: Path) -> None:
    found = list(games(data / "train"))
    assert [family for family, _ in found] == list(FAMILIES)
    for family, path in found:
        game = json.loads(path.read_text(encoding="utf-8"))
        record = json.loads((path.parent / "traj_data.json").read_text(encoding="utf-8"))
        assert game["solvable"] is True
        assert 3 <= len(game["walkthrough"]) <= 15
        assert record["task_type"] == family
        assert (path.parent / "initial_state.pddl").read_text() == game["pddl_problem"]


@pytest.mark.parametrize("k", [0, 3, 5])
def test_the_stock_engine_wins_by_the_walkthrough(files: list[Path], k: int) -> None:
    plan = json.loads(files[k].read_text(encoding="utf-8"))["walkthrough"]
    *before, (_, _, score, done) = play_stock(files[k], plan)
    assert (score, done) == (1, True)
    assert not any(over for _, _, _, over in before)


def test_a_game_is_a_function_of_seed_split_and_number(data: Path, tmp_path: Path) -> None:
    """In another process, with other hashes, and with fewer games asked for before it."""
    code = "import sys; from pathlib import Path; from tests.tasks.alfworld.made import made; made(Path(sys.argv[1]), 'train', 2)"  # fmt: skip
    env = {**os.environ, "PYTHONHASHSEED": "123"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=env)
    again = contents(tmp_path)
    assert len(again) == 2 * 3
    assert again.items() <= contents(data).items()


def test_another_seed_and_another_split_make_other_games() -> None:
    problems = {
        making.make(split, 0, seed, 0, "t").game["pddl_problem"].partition("\n")[2]
        for split in SPLITS
        for seed in (0, 1)
    }
    assert len(problems) == 6


def test_what_is_finished_is_not_made_again(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    lost = next((copy / "train").glob("look_at*/*"))
    (lost / "game.tw-pddl").unlink()  # as when the machine stopped while it was made
    before = {p: p.stat().st_mtime_ns for p in copy.rglob("game.tw-pddl")}
    told = made(copy, "train", MADE["train"])
    assert [line.split(":")[0] for line in told] == ["train 1", "train"]
    assert told[-1] == "train: 1 games made, 5 there already"
    assert contents(copy) == contents(data)
    assert all(p.stat().st_mtime_ns == at for p, at in before.items())


def test_the_manifest_says_what_made_them(data: Path) -> None:
    found = json.loads((data / "manifest.json").read_text(encoding="utf-8"))
    assert (found["seed"], found["recipe"]) == (0, making.RECIPE)
    assert {s: own["games"] for s, own in found["splits"].items()} == MADE
    assert found["versions"]["alfworld"] == "0.4.2"


def test_games_of_another_seed_or_another_hand_are_left_alone(data: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds games of seed 0, not 1; use another --out"):
        made(data, "train", 1, seed=1)
    shutil.copytree(data / "train", tmp_path / "train")
    with pytest.raises(DataError, match="not made here; use another --out"):
        made(tmp_path, "train", 1)


def test_a_draw_that_cannot_be_won_is_told_and_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = iter([(), ("look",)])
    monkeypatch.setattr(making, "solve", lambda made, name: next(plans))
    first, second, _ = made(tmp_path, "train", 1)
    assert "cannot be won; drawn again" in first
    assert second.endswith("won in 1")
    assert len(list(tmp_path.rglob("game.tw-pddl"))) == 1


def test_a_game_that_no_draw_makes_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "solve", lambda made, name: ())
    with pytest.raises(DataError, match="train 0: none of 20 draws can be won"):
        made(tmp_path, "train", 1)


def test_unseen_scenes_are_no_scenes_of_training() -> None:
    assert set(SCENES["train"]) == set(SCENES["valid_seen"])
    assert not set(SCENES["train"]) & set(SCENES["valid_unseen"])


def test_a_scene_is_the_same_in_every_game_that_is_played_in_it() -> None:
    from vlrft.tasks.alfworld.scenes import draw_layout, draw_scene

    one, other = (draw_scene(0, "Kitchen", 7) for _ in range(2))
    layouts = [draw_layout(FAMILIES[0], one, random.Random(k)) for k in range(2)]
    assert one == other != draw_scene(0, "Kitchen", 8)
    assert layouts[0].items != layouts[1].items
    assert len({r.id for r in one.receptacles} | {i.id for i in layouts[0].items}) == len(
        one.receptacles
    ) + len(layouts[0].items)


def test_the_target_starts_where_it_does_not_belong() -> None:
    from vlrft.tasks.alfworld.scenes import draw_layout, draw_scene

    for k in range(30):
        found = draw_layout(FAMILIES[3], draw_scene(0, "Kitchen", 7 + k % 9), random.Random(k))
        own = [i.inside.kind for i in found.items if i.kind == found.target.object]
        assert own
        assert not {found.target.receptacle, "Microwave"} & set(own)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--count", "trian=1"], "'trian' is no split of alfworld; it has train, valid_seen"),
        (["--count", "train=0"], "'train=0': expected SPLIT=N with N at least 1"),
        (["--count", "train"], "'train': expected SPLIT=N"),
        (["--count", "train=1,train=2"], "train is given twice"),
        (["--count", "train=1", "--count", "valid_seen=2, train=2"], "train is given twice"),
        ([], "task alfworld makes its data: say how much, as in --count train=200"),
        (["--count", "train=1", "--split", "train"], "--split: does not go with --count"),
    ],
)
def test_wrong_wishes_are_one_line(
    arguments: list[str], what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["data", "prepare", "alfworld", *arguments, "--out", str(tmp_path / "games")]
    assert main(given) == 2
    told = capsys.readouterr().err
    assert what in told
    assert told.count("\n") == 1
    assert not (tmp_path / "games").exists()


def test_a_task_that_makes_nothing_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "prepare", "digits", "--count", "train=1", "--out", "x"]) == 2
    assert "task digits makes no data of its own; use --from" in capsys.readouterr().err


def test_the_command_tells_each_game(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["data", "prepare", "alfworld", "--count", "train=6", "--out", str(data)]
    assert main(given) == 0
    assert capsys.readouterr().out == "train: 0 games made, 6 there already\n"
