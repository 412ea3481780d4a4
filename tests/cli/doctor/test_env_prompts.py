"""The prompts of a task with an environment, for a memory plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Tiny
from vlrft.config import TaskConfig
from vlrft.memory.shapes import PromptSize
from vlrft.testing.small_policies import ask
from vlrft.trainer.memory_plan.prompt_lengths import measure_prompts

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
def test_the_prompts_of_episodes_are_those_of_gold_episodes(
    tiny: Tiny, tmp_path: Path, kind: str, rows: int
) -> None:
    (tmp_path / "count.py").write_text(FILE)
    chat = tiny("qwen2").chat
    task = TaskConfig(name=str(tmp_path / "count.py"), options={"kind": kind})
    prompts = measure_prompts(task, "train", chat, BOUNDS)
    assert prompts.turns == len(prompts.sizes) == rows
    assert "gold episodes of the first 1 of" in prompts.origin
    first = len(chat.render(ask("0 of 3")).ids)
    if kind == "plain":
        assert {size.tokens for size in prompts.sizes} == {first}
    else:
        assert prompts.sizes[0].tokens > 2 * first


def test_without_gold_episodes_the_longest_prompt_is_planned(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(FILE)
    task = TaskConfig(name=str(tmp_path / "count.py"), options={"kind": "broken"})
    prompts = measure_prompts(task, "train", tiny("qwen2").chat, BOUNDS)
    assert prompts.sizes == (BOUNDS,)
    assert "no such game" in prompts.origin
