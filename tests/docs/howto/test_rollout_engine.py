"""The engine of docs/howto/rollout_engine.md passes its suite and samples what `hf` samples."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, SHORT_RUN, command, files, read_page, run_suite, write_files
from vlrft.cli.main import main
from vlrft.config.overrides import without_replaced
from vlrft.rollout.engines import RolloutEngine, RolloutEngineKind, find_rollout_engine

PAGE = read_page("docs/howto/rollout_engine.md")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(PAGE, tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)


def test_the_page_has_the_files_that_are_run_here() -> None:
    assert set(files(PAGE)) == {"copied.py", "test_copied.py"}


def test_the_engine_passes_the_suite(tmp_path: Path) -> None:
    assert run_suite(tmp_path / "test_copied.py") > 5


def test_a_run_is_the_same_with_the_engine_of_the_page() -> None:
    train = [*command(PAGE, "./copied.py"), *SHORT_RUN]
    assert main([*train, "--out", "copied"]) == 0
    shared = [*without_replaced(train, ["rollout.engine=hf"], []), "rollout.engine=hf"]
    assert main([*shared, "--out", "shared"]) == 0
    rows = [Path(run, "rollouts.jsonl").read_text() for run in ("copied", "shared")]
    assert rows[0] == rows[1]


def test_a_setting_that_it_does_not_have_is_refused_before_the_model_is_loaded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.trainer.setup.load_policy", None)
    train = [*command(PAGE, "./copied.py"), *SHORT_RUN, "--out", "run"]
    assert main([*train, "stages.1.rollout.top_k=3"]) == 2
    assert "rollout.top_k: the engine copied has none" in capsys.readouterr().err


def test_the_settings_and_methods_of_the_page_exist() -> None:
    kind = find_rollout_engine({"name": "./copied.py:Copied", "every": 2})
    assert isinstance(kind, RolloutEngineKind)
    methods = set(re.findall(r"^\| `(\w+)\(", PAGE, re.M))
    assert methods == {"check", "build", "load_weights", "generate", "finish"}
    assert all(hasattr(RolloutEngineKind, m) or hasattr(RolloutEngine, m) for m in methods)
