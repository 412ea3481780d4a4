"""The algorithms of docs/howto/algorithm.md train, and the names that it lists exist."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import ROOT, SHORT_RUN, command, files, read_page, run_suite, write_files
from vlrft.advantages import find_estimator
from vlrft.advantages.rows import estimate_step, rollout_means
from vlrft.algorithms import find_algorithm
from vlrft.cli.main import main
from vlrft.config.load import load_config
from vlrft.objectives import Needs
from vlrft.selection.injection import InjectGold
from vlrft.testing.small_policies import group

PAGE = read_page("docs/howto/algorithm.md")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(PAGE, tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)


def test_the_page_has_the_files_that_are_run_here() -> None:
    assert set(files(PAGE)) == {"spo.py", "test_spo.py", "combined.yaml", "surprise.py"}


def test_the_step_gives_a_bonus_that_falls_and_notes_the_visit() -> None:
    estimator = find_estimator([{"step": "./surprise.py:Surprise", "weight": 0.5}])
    groups = [group("a", [1.0, 0.0], [[7], [8]])]  # of log-prob −1 each
    first = estimate_step(groups, estimator)
    assert rollout_means(first.rows) == [[1.5, 0.5]]
    later = estimate_step(groups, estimator, progress=0.5, history=first.notes)
    assert rollout_means(later.rows) == [[1.25, 0.25]]
    assert later.notes == [{"visits": 2.0}]


def test_the_injection_of_the_page_is_a_setting_of_an_algorithm() -> None:
    assert find_algorithm({"name": "gspo", "inject": "gold"}).inject == InjectGold()
    more = {"name": "gold", "when": "always", "replace": False}
    assert find_algorithm({"name": "gspo", "inject": more}).inject == InjectGold(
        when="always", replace=False
    )


def test_the_objective_has_fewer_than_25_lines_of_code() -> None:
    lines = [x for x in files(PAGE)["spo.py"].splitlines() if x.strip() and x[0] != "#"]
    assert len(lines) < 25


def test_the_objective_passes_the_suite(tmp_path: Path) -> None:
    assert run_suite(tmp_path / "test_spo.py") > 3


def test_the_algorithm_trains() -> None:
    assert main([*command(PAGE, "./spo.py"), *SHORT_RUN, "--out", "run"]) == 0
    assert (Path("run") / "report.html").exists()


def test_the_combination_of_parts_trains() -> None:
    chosen = find_algorithm(load_config("combined.yaml", ()).stages[1].algorithm or "grpo")
    assert chosen is not None
    assert main(["train", "combined.yaml", *SHORT_RUN, "--out", "run"]) == 0


def test_a_scheduled_number_is_taken() -> None:
    (schedule,) = re.findall(r"`objective: (\{clip_high: .*?\}\})`", PAGE)
    algorithm = find_algorithm({"name": "grpo", "objective": yaml.safe_load(schedule)})
    assert [algorithm.at(done).objective.clip_high for done in (0.0, 1.0)] == [0.3, 0.2]  # type: ignore[attr-defined]


def test_the_table_of_needs_names_real_needs() -> None:
    table = PAGE.partition("`needs` declares")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.M)) <= {f.name for f in fields(Needs)}
