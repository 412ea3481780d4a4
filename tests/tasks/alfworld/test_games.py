"""Generated games: reproducible, kept once written, refused when wrong, and won on the stock engine too."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from vlrft.tasks.alfworld import generation
from vlrft.tasks.alfworld.families import FAMILIES, SCENES, SPLITS
from vlrft.tasks.alfworld.folder import find_games

from tests.tasks.alfworld.generated import COUNTS, contents, generate_games
from tests.tasks.alfworld.stock import play_stock
from vlrft.cli.main import main
from vlrft.schema import DataError

pytestmark = pytest.mark.usefixtures("data")


def test_families_alternate_and_each_game_has_a_walkthrough(data: Path) -> None:
    games = list(find_games(data / "train"))
    assert [family for family, _ in games] == list(FAMILIES)
    for family, path in games:
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
    """In another process, with other hashes, and with fewer games before it."""
    code = "import sys; from pathlib import Path; from tests.tasks.alfworld.generated import generate_games; generate_games(Path(sys.argv[1]), 'train', 2)"  # fmt: skip
    env = {**os.environ, "PYTHONHASHSEED": "123"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=env)
    again = contents(tmp_path)
    assert len(again) == 2 * 3
    assert again.items() <= contents(data).items()


def test_another_seed_or_split_gives_other_games() -> None:
    problems = {
        generation.draw_game(split, 0, seed, 0, "t").game["pddl_problem"].partition("\n")[2]
        for split in SPLITS
        for seed in (0, 1)
    }
    assert len(problems) == 6


def test_games_of_some_families_are_those_that_they_are_among_all(
    data: Path, tmp_path: Path
) -> None:
    list(generation.generate("train", 1, 0, tmp_path, ("look_at_obj_in_light",)))
    made, every = contents(tmp_path), contents(data)
    assert made
    assert made.items() <= every.items()
    assert all("look_at_obj_in_light" in name for name in made)


def test_a_finished_game_is_not_generated_again(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    lost = next((copy / "train").glob("look_at*/*"))
    (lost / "game.tw-pddl").unlink()  # as when the machine stopped during its generation
    before = {p: p.stat().st_mtime_ns for p in copy.rglob("game.tw-pddl")}
    lines = generate_games(copy, "train", COUNTS["train"])
    assert [line.split(":")[0] for line in lines] == ["train 1", "train"]
    assert lines[-1] == "train: 1 games generated, 5 exist already"
    assert contents(copy) == contents(data)
    assert all(p.stat().st_mtime_ns == at for p, at in before.items())


def test_the_manifest_has_seed_recipe_and_versions(data: Path) -> None:
    manifest = json.loads((data / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["seed"], manifest["recipe"]) == (0, generation.RECIPE)
    assert {s: entry["games"] for s, entry in manifest["splits"].items()} == COUNTS
    assert manifest["versions"]["alfworld"] == "0.4.2"


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"recipe": ')
    with pytest.raises(DataError, match=r"manifest.json: not JSON"):
        generate_games(tmp_path, "train", 1, seed=0)


def test_a_folder_with_games_of_another_seed_or_origin_is_refused(
    data: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="contains games of seed 0, not 1; use another --out"):
        generate_games(data, "train", 1, seed=1)
    shutil.copytree(data / "train", tmp_path / "train")
    with pytest.raises(DataError, match="not generated here; use another --out"):
        generate_games(tmp_path, "train", 1)


def test_a_draw_that_cannot_be_won_is_reported_and_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = iter([(), ("look",)])
    monkeypatch.setattr(generation, "solve", lambda draft, name: next(plans))
    first, second, _ = generate_games(tmp_path, "train", 1)
    assert "cannot be won; drawn again" in first
    assert second.endswith("won in 1")
    assert len(list(tmp_path.rglob("game.tw-pddl"))) == 1


def test_a_game_without_a_winnable_draw_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "solve", lambda draft, name: ())
    with pytest.raises(DataError, match="train 0: none of 20 draws can be won"):
        generate_games(tmp_path, "train", 1)


def test_unseen_scenes_are_not_used_in_training() -> None:
    assert set(SCENES["train"]) == set(SCENES["valid_seen"])
    assert not set(SCENES["train"]) & set(SCENES["valid_unseen"])


def test_a_scene_is_the_same_in_all_of_its_games() -> None:
    from vlrft.tasks.alfworld.scenes import draw_layout, draw_scene

    one, other = (draw_scene(0, "Kitchen", 7) for _ in range(2))
    layouts = [draw_layout(FAMILIES[0], one, random.Random(k)) for k in range(2)]
    assert one == other != draw_scene(0, "Kitchen", 8)
    assert layouts[0].items != layouts[1].items
    assert len({r.id for r in one.receptacles} | {i.id for i in layouts[0].items}) == len(
        one.receptacles
    ) + len(layouts[0].items)


def test_the_target_starts_outside_of_its_goal_receptacle() -> None:
    from vlrft.tasks.alfworld.scenes import draw_layout, draw_scene

    for k in range(30):
        layout = draw_layout(FAMILIES[3], draw_scene(0, "Kitchen", 7 + k % 9), random.Random(k))
        starts = [i.inside.kind for i in layout.items if i.kind == layout.target.object]
        assert starts
        assert not {layout.target.receptacle, "Microwave"} & set(starts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--count", "trian=1"], "task alfworld has no split 'trian'; it has train, valid_seen"),
        (["--count", "train=0"], "'train=0': expected SPLIT=N with N at least 1"),
        (["--count", "train"], "'train': expected SPLIT=N"),
        (["--count", "train=1,train=2"], "train is given twice"),
        (["--count", "train=1", "--count", "valid_seen=2, train=2"], "train is given twice"),
        ([], "task alfworld generates its data: say how much, as in --count train=200"),
        (["--count", "train=1", "--split", "train"], "--split: cannot be combined with --count"),
    ],
)
def test_wrong_arguments_give_an_error_of_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["data", "prepare", "alfworld", *arguments, "--out", str(tmp_path / "games")]
    assert main(command) == 2
    output = capsys.readouterr().err
    assert message in output
    assert output.count("\n") == 1
    assert not (tmp_path / "games").exists()


def test_a_task_that_generates_no_data_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "prepare", "digits", "--count", "train=1", "--out", "x"]) == 2
    assert "task digits does not generate data; use --from" in capsys.readouterr().err


def test_the_command_prints_the_number_of_games(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["data", "prepare", "alfworld", "--count", "train=6", "--out", str(data)]
    assert main(command) == 0
    assert capsys.readouterr().out == "train: 0 games generated, 6 exist already\n"
    command[4] = "train=1"
    assert main([*command, "options.families=[look_at_obj_in_light]"]) == 0
    assert capsys.readouterr().out == "train: 0 games generated, 1 exist already\n"
    assert main([*command, "options.families=[look_at_the_moon]"]) == 2
    assert (
        "options.families.0: unknown name 'look_at_the_moon'; known: pick_and_place_simple"
        in capsys.readouterr().err
    )
