"""Rewards that read how far training is: alike on one rank and two, and where a run continues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from tests.conftest import Tiny
from tests.fakes.streaming_engines import ScriptedStream
from tests.fakes.thread_ranks import run_thread_ranks
from tests.trainer.ahead.test_ranks_ahead import Quiet, config
from vlrft.config import Config, RewardConfig
from vlrft.distributed.ranks import Ranks
from vlrft.reporting.run_log import RunLog
from vlrft.selection.prompt_sampler import PromptSampler
from vlrft.selection.prompt_state import PromptStates
from vlrft.trainer.ahead.collecting import collecting
from vlrft.trainer.stage import Stage
from vlrft.trainer.stage_settings import resolve_stages
from vlrft.trainer.step_metrics import Timer


def rewards_of_steps(config: Config, tiny: Tiny, ranks: Ranks, done: int = 0) -> list[set[float]]:
    """The different rewards of each step after `done` of them, and those of greedy answers to its prompts."""
    (settings,) = resolve_stages(config)
    policy, states = tiny("qwen2_vl"), PromptStates()
    stage = Stage(
        settings=settings,
        prompts=PromptSampler(settings.loaded.samples, 3, settings.strategy, states),
        replay=None,
        run_config=config,
        policy=policy,
        rollout=ScriptedStream(policy.chat, lambda request, seed: str(seed % 10)),
        log=cast("RunLog", Quiet()),
        ranks=ranks,
        prompt_states=states,
    )
    rewards: list[set[float]] = []
    with collecting(stage, done) as source:
        for step in range(done + 1, settings.last + 1):
            groups = source.collect(step, Timer()).groups
            greedy = stage.greedy_rewards(groups, settings.progress(step))
            rewards.append({*greedy, *(r for g in groups for r in g.rewards)})
            source.release(step)
    return rewards


def progress_alone(folder: Path, *overrides: str) -> Config:
    (folder / "when.py").write_text(
        "def when(completion, sample, progress):\n    return progress\n"
    )
    plain = config(folder, *overrides)
    (stage,) = plain.stages
    task = replace(stage.task, rewards={f"{folder / 'when.py'}:when": RewardConfig(weight=1.0)})
    return replace(plain, stages=(replace(stage, task=task),))


def test_rewards_follow_the_steps_of_a_stage_on_any_number_of_ranks(
    tmp_path: Path, tiny: Tiny
) -> None:
    steps: Sequence[set[float]] = [{0.0}, {0.25}, {0.5}, {0.75}]
    alone = progress_alone(tmp_path)
    assert rewards_of_steps(alone, tiny, Ranks()) == steps
    assert rewards_of_steps(alone, tiny, Ranks(), done=2) == steps[2:]
    ahead = progress_alone(tmp_path, "rollout.ahead=2")
    for rewards in run_thread_ranks(2, lambda ranks: rewards_of_steps(ahead, tiny, ranks)):
        assert rewards == steps
