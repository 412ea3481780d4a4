"""A new file in vlrft/engine/ is an engine: found by its name, planned without a memory model, listed without its backend."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import vlrft.engine
from tests.memory.shapes import MODEL
from vlrft.cli.main import main
from vlrft.config import UpdateConfig
from vlrft.engine import ENGINES, find_engine, planned_choices, rank_memory
from vlrft.engine.single import Single
from vlrft.schema.errors import ConfigError

OWN = """
from vlrft.config import strict
from vlrft.engine.single import SingleEngine


@strict
class Mirrored:
    copies: int = 2

    def build(self, config, policy, total_steps, ranks):
        return SingleEngine(config, policy, total_steps, ranks)

    def check(self, config, policy):
        pass


KIND = Mirrored
"""


@pytest.fixture
def mirrored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The engine `mirrored`, as a file that extends the folder vlrft/engine/."""
    (tmp_path / "mirrored.py").write_text(OWN)
    monkeypatch.setattr(vlrft.engine, "__path__", [*vlrft.engine.__path__, str(tmp_path)])
    vars(ENGINES).pop("_files", None)
    yield
    vars(ENGINES).pop("_files", None)
    sys.modules.pop("vlrft.engine.mirrored")


def test_the_shipped_engines_are_found() -> None:
    assert list(ENGINES) == ["deepspeed", "fsdp", "single"]


@pytest.mark.usefixtures("mirrored")
def test_an_engine_of_ones_own_is_one_file() -> None:
    assert list(ENGINES) == ["deepspeed", "fsdp", "mirrored", "single"]
    assert vars(find_engine({"name": "mirrored", "copies": 3})) == {"copies": 3}
    with pytest.raises(ConfigError, match=r"engine\.copys: unknown key; did you mean copies\?"):
        find_engine({"name": "mirrored", "copys": 3})


@pytest.mark.usefixtures("mirrored")
def test_an_engine_without_a_memory_model_is_planned_as_single() -> None:
    share, modelled = rank_memory(find_engine("mirrored"), UpdateConfig(), MODEL, 8)
    assert not modelled
    assert share == Single().rank_memory(UpdateConfig(), MODEL, 8)
    assert "mirrored" not in {choice["name"] for choice in planned_choices()}


@pytest.mark.usefixtures("mirrored")
def test_the_plan_says_that_an_engine_has_no_memory_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["doctor", "quickstart", "engine=mirrored"]) == 0
    assert "engine mirrored has no memory model: planned as if" in capsys.readouterr().out
    assert main(["doctor", "quickstart", "engine=single"]) == 0
    assert "memory model" not in capsys.readouterr().out


def test_engines_are_listed_without_their_backends() -> None:
    code = "import sys, vlrft.engine as e; print(*e.ENGINES, 'deepspeed' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    *names, imported = ran.stdout.split()
    assert {"single", "deepspeed"} <= set(names)
    assert imported == "False"
