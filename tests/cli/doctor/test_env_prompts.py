"""The prompts of a task with an environment, for a memory plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Tiny
from vlrft.config import TaskConfig
from vlrft.config.load import load_config
from vlrft.memory.shapes import PromptSize
from vlrft.testing.small_policies import ask
from vlrft.trainer.memory_plan.planner import step_work
from vlrft.trainer.memory_plan.prompt_lengths import TaskPrompts, measure_prompts

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
    assert prompts.episodes
    assert "no such game" in prompts.origin


def test_episodes_share_no_context_when_they_are_sampled_and_trained_on() -> None:
    """At one turn of two samples' four episodes each there are eight prompts with one completion."""
    sizes = tuple(PromptSize(tokens=n) for n in (30, 20))
    config = load_config("alfworld_grpo", ["rollout.group_size=4", "stages.0.prompts_per_step=2"])
    stage = config.stages[0]
    for episodes, prompts, answers in ((True, [30] * 4 + [20] * 4, 1), (False, [30, 20], 4)):
        measured = TaskPrompts(sizes=sizes, origin="", episodes=episodes)
        work = step_work(config, stage, measured, ranks=1)
        assert work.rollout is not None
        assert [p.tokens for p in work.prompts] == prompts
        assert [p.tokens for p in work.rollout.prompts] == prompts
        assert work.group == work.rollout.answers == answers
    two_turns = TaskPrompts(sizes=sizes, origin="", turns=2, episodes=True)
    work = step_work(config, stage, two_turns, ranks=2)
    assert work.rollout is not None
    assert [p.tokens for p in work.prompts] == [30] * 8
    assert [p.tokens for p in work.rollout.prompts] == [30] * 4
