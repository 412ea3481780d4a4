"""Several ranks that sample ahead: each plays its shard, and all have the groups that a single process would have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tests.conftest import Tiny
from tests.fakes.streaming_engines import ScriptedStream
from tests.fakes.thread_ranks import run_thread_ranks
from tests.trainer.ahead.test_runs_ahead import EVEN, TINY
from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.distributed.ranks import Ranks
from vlrft.reporting.run_log import RunLog
from vlrft.schema import Group
from vlrft.schema.errors import ConfigError
from vlrft.selection.prompt_sampler import PromptSampler
from vlrft.selection.prompt_state import PromptStates
from vlrft.trainer.ahead.collecting import collecting
from vlrft.trainer.ahead.misfits import refuse_several_ranks
from vlrft.trainer.stage import Stage
from vlrft.trainer.stage_settings import resolve_stages
from vlrft.trainer.step_metrics import Timer


class Quiet:
    """A log that keeps nothing."""

    def report_failures(self, groups: Sequence[Group]) -> Sequence[Group]:
        return groups


def config(folder: Path, *overrides: str) -> Config:
    (folder / "mine.py").write_text(EVEN)
    (folder / "tiny.yaml").write_text(TINY)
    rewards = f"task.rewards={{{folder / 'mine.py'}:even: 1.0}}"
    return load_config(
        str(folder / "tiny.yaml"), (rewards, "stages.0.prompts_per_step=3", *overrides)
    )


def collect_all(config: Config, tiny: Tiny, ranks: Ranks) -> tuple[list[Any], list[int]]:
    """The ids, rewards and completions of all steps' groups, and the number of groups that this rank played."""
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
    groups: list[Group] = []
    with collecting(stage, 0) as source:
        for step in range(1, settings.last + 1):
            groups += source.collect(step, Timer()).groups
            source.release(step)
    plain = [(g.sample.id, g.rewards, [r.text for r in g.rollouts]) for g in groups]
    return [plain, states.state_dict(), stage.prompts_state], [
        sum(g.rank == rank for g in groups) for rank in range(ranks.size)
    ]


def test_ranks_collect_what_a_single_process_collects_in_turn(tmp_path: Path, tiny: Tiny) -> None:
    alone, _ = collect_all(config(tmp_path), tiny, Ranks())
    ahead = config(tmp_path, "rollout.ahead=2")
    for collected, shares in run_thread_ranks(2, lambda ranks: collect_all(ahead, tiny, ranks)):
        assert collected == alone
        assert sorted(shares)[0] >= 4  # of 12 groups


def test_ranks_that_may_sample_more_are_refused_with_rollouts_ahead(tmp_path: Path) -> None:
    again = "algorithm.keep={name: dynamic_sampling, max_attempts: 3}"
    (stage,) = resolve_stages(config(tmp_path, "rollout.ahead=2", again))
    both = [(stage.name, stage.config, stage.algorithm)]
    refuse_several_ranks(both, 1)
    with pytest.raises(
        ConfigError,
        match=r"rollout\.ahead: 2 on 2 ranks, but algorithm\.keep samples up to 3 times",
    ):
        refuse_several_ranks(both, 2)
