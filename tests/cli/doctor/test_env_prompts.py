"""What a plan takes for the prompts of a task with an environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Tiny
from tests.fakes.policies import ask
from vlrft.cli.doctor.prompt_lengths import prompts_of
from vlrft.config import TaskConfig
from vlrft.memory.shapes import PromptSize

BOUNDS = PromptSize(tokens=4096)
FILE = """
from dataclasses import dataclass, replace

from tests.rollout.test_play import TASK
from vlrft.schema import Sample



@dataclass(frozen=True)
class Options:
    kind: str = ""


def load(split, options):
    return [Sample(id="game", messages=(), answer=options.kind)]


task = replace(TASK, options=Options, load=load)
"""


@pytest.mark.parametrize(("kind", "rows"), [("plain", 3), ("grows", 1)])
def test_prompts_of_plays_are_those_of_gold(
    tiny: Tiny, tmp_path: Path, kind: str, rows: int
) -> None:
    (tmp_path / "count.py").write_text(FILE)
    chat = tiny("qwen2").chat
    task = TaskConfig(name=str(tmp_path / "count.py"), options={"kind": kind})
    found = prompts_of(task, "train", chat, BOUNDS)
    assert found.turns == len(found.sizes) == rows
    assert "gold plays of the first 1 of" in found.origin
    first = len(chat.render(ask("0 of 3")).ids)
    if kind == "plain":
        assert {size.tokens for size in found.sizes} == {first}
    else:
        assert found.sizes[0].tokens > 2 * first


def test_plays_that_cannot_be_had_leave_the_bounds(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(FILE)
    task = TaskConfig(name=str(tmp_path / "count.py"), options={"kind": "broken"})
    found = prompts_of(task, "train", tiny("qwen2").chat, BOUNDS)
    assert found.sizes == (BOUNDS,)
    assert "no such game" in found.origin
