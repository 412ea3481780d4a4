"""The tasks of a run: that of its evaluations, their rows, hashes of their samples, and what does not fit the policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vlrft.config import Config, PolicyConfig
from vlrft.data.clips import ClipTimes
from vlrft.envs import EnvRegistry
from vlrft.policy.chat import Chat
from vlrft.policy.load import vision_warning
from vlrft.policy.policy import Policy
from vlrft.rollout.bad_rows import check_prompts
from vlrft.rollout.task import LoadedTask, load_task
from vlrft.schema.errors import MissingSplit
from vlrft.trainer.rank_facts import hash_of_samples
from vlrft.trainer.stage_settings import StageSettings


def load_evaluation(config: Config, hosts: EnvRegistry) -> tuple[LoadedTask | None, list[str]]:
    """The task of the evaluations, with its split. None, and a line that says why, for data without such a split, which are
    still good to train on."""
    try:
        return replace(load_task(config.task, config.eval.split), hosts=hosts), []
    except MissingSplit as e:
        return None, [f"trains without evaluations: {e}"]


def without_long_prompts(stage: StageSettings, chat: Chat, times: ClipTimes) -> StageSettings:
    """The stage without rows whose prompts sampling would refuse; answers that are given have no such limit."""
    if stage.algorithm.answers != "sampled":
        return stage
    rollout = stage.config.rollout
    tokens, images = rollout.max_prompt_tokens, rollout.max_images
    kept = check_prompts(stage.loaded, chat, tokens, max_images=images, times=times)
    return replace(stage, loaded=kept)


def data_hashes(
    stages: Sequence[StageSettings], evaluated: LoadedTask | None, split: str
) -> dict[str, str]:
    """The number of samples and their hash, by the name of the stage or of the evaluation's split."""
    hashes = {stage.name: hash_of_samples(stage.loaded.samples) for stage in stages}
    if evaluated is not None:
        hashes[split] = hash_of_samples(evaluated.samples)
    return hashes


def data_changes(summary: Mapping[str, Any] | None, data: Mapping[str, str]) -> list[str]:
    """A line for each of `data` that a resumed run's summary has otherwise; its config, which is compared, only says where they
    are."""
    before: Mapping[str, str] = (summary or {}).get("data", {})
    return [
        f"--resume: the data of {name} are not those of the steps so far: {before[name]}, now {now}"
        for name, now in data.items()
        if before.get(name, now) != now
    ]


def warnings_of(config: PolicyConfig, policy: Policy, tasks: Sequence[LoadedTask]) -> list[str]:
    """A line for each setting of the policy and of the tasks that does not fit the policy; a built policy learns any unit of boxes."""
    warnings = [vision_warning(config, policy.chat)]
    if config.model is not None:
        warnings += [loaded.box_warning(policy.box_unit) for loaded in tasks]
    return list(dict.fromkeys(filter(None, warnings)))
