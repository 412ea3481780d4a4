"""The catalogue of published systems: whole, and every config in it runs as far as a config can be checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vlrft.cli.main import main
from vlrft.config.load import load_config
from vlrft.config.systems import System, all_systems, find_system, system_tree
from vlrft.schema.errors import ConfigError
from vlrft.trainer.stage_settings import find_choices

RUNNING = [s.id for s in all_systems().values() if s.runs]


def test_every_system_of_the_list_is_there_once() -> None:
    assert set(range(1, 196)) <= set(all_systems())
    names = [s.name for s in all_systems().values()]
    titles = [s.title for s in all_systems().values()]
    assert len(set(names)) == len(names)
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("system", all_systems().values(), ids=lambda s: s.id)
def test_a_system_says_what_its_status_means(system: System) -> None:
    assert system.runs == (system.status in ("works", "part"))
    assert bool(system.lacks) == (system.status in ("part", "out"))
    assert bool(system.needs) == (system.status == "planned")
    assert system.runs or not (system.config or system.stage)


@pytest.mark.parametrize("number", RUNNING)
def test_the_config_of_a_running_system_has_parts_that_exist(number: int) -> None:
    config = load_config(f"system:{number}")
    find_choices(config)
    assert config.task.name == load_config(all_systems()[number].base).task.name


def test_the_algorithm_of_a_system_replaces_that_of_its_base() -> None:
    config = load_config("system:124", ["algorithm.reduction=token"])
    assert config.algorithm == {"name": "grpo", "reduction": "token"}
    assert load_config("quickstart").algorithm == {"name": "gpg", "regularize": {"kl": 0.15}}
    stages = load_config("system:173").stages
    assert [stage.prompts for stage in stages] == ["uniform", "greso"]


def test_a_system_is_found_by_number_and_by_name() -> None:
    assert find_system("system:5") is find_system("system:gvpo") is all_systems()[5]
    with pytest.raises(
        ConfigError, match=r"no system of that number, 1 to \d+, or name; did you mean GVPO"
    ):
        find_system("system:GVPOO")
    with pytest.raises(ConfigError, match=r"system:2 .* is planned: needs branching"):
        system_tree(find_system("system:2"))
    with pytest.raises(ConfigError, match=r"system:22 .* is out: diffusion"):
        load_config("system:22")


def test_the_commands_list_and_show_systems(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "systems", "--status", "works", "--of", "objective", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"GVPO", "GPG", "GMPO"} <= {row["name"] for row in rows}
    assert {(row["status"], row["kind"]) for row in rows} == {("works", "objective")}
    assert main(["list", "systems"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(all_systems()) + 1
    assert main(["show", "system:126"]) == 0
    out = capsys.readouterr().out
    assert "name: CPPO" in out
    assert "share: 0.5" in out
    assert main(["show", "system:141"]) == 0
    out = capsys.readouterr().out
    assert "is system 124 when 100% of the stage is done" in out
    assert (
        "is system 124 when 0% of the stage is done, there with {'regularize': {'kl': 0.0}}" in out
    )
    assert main(["show", "system:2", "seed=1"]) == 2
    assert "it has no config to change" in capsys.readouterr().err
    assert main(["list", "tasks", "--status", "works"]) == 2
    assert "--status and --of choose among systems" in capsys.readouterr().err


def test_a_run_of_a_system_has_a_folder_without_a_colon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []

    def train(config: object, *, out: Path, **others: object) -> object:
        folders.append(out)
        raise ConfigError(["far enough"])

    monkeypatch.setattr("vlrft.trainer.train.train", train)
    assert main(["train", "system:5"]) == 2
    assert folders == [Path("runs/system_5")]
