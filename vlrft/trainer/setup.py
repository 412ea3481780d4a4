"""Setup of a run: its stages, policy, log and checkpoints, in a new folder or from the last checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from vlrft.config import Config, EvalConfig, RolloutConfig
from vlrft.data.clips import ClipTimes
from vlrft.distributed.device import find_device
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.engine import check_quantization, find_engine
from vlrft.envs import EnvRegistry
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.reporting.files import read_log, read_summary
from vlrft.reporting.run_folder.names import CHECKPOINTS, METRICS
from vlrft.reporting.run_log import RunLog
from vlrft.rollout.bad_rows import check_gold_answers, check_pictures, check_prompts
from vlrft.rollout.engines import EnginePlace, build_rollout_engine, find_rollout_engine
from vlrft.rollout.seeds import seed_from
from vlrft.rollout.video_check import refuse_videos
from vlrft.selection.prompt_sampler import PromptSampler
from vlrft.selection.prompt_state import PromptStates
from vlrft.selection.replay import ReplayStore
from vlrft.trainer.ahead.misfits import refuse_several_ranks
from vlrft.trainer.checkpoint import Checkpoints
from vlrft.trainer.divergence import restore_latest
from vlrft.trainer.left_out import list_left_out
from vlrft.trainer.lost_checkpoints import refuse_lost_checkpoints
from vlrft.trainer.memory_plan.disk import check_disk
from vlrft.trainer.memory_plan.planner import RunTasks
from vlrft.trainer.memory_plan.verdict import check_memory
from vlrft.trainer.profiler import OFF, StepProfiler
from vlrft.trainer.rank_facts import compare_tasks, compare_weights
from vlrft.trainer.run import Run
from vlrft.trainer.run_folder import RunFolder
from vlrft.trainer.run_tasks import (
    data_changes,
    data_hashes,
    load_evaluation,
    warnings_of,
    without_long_prompts,
)
from vlrft.trainer.sampler_gate import SamplerGate
from vlrft.trainer.stage import Stage
from vlrft.trainer.stage_settings import StageSettings, advice, resolve_stages
from vlrft.trainer.zero_reward import ZeroRewards


def open_run(
    config: Config, out: Path, ranks: Ranks = ALONE, *, resume: bool, overwrite: bool
) -> Run:
    """A new run in a new or empty folder, or one that resumes from its last intact checkpoint, on any number of ranks.

    Rank 0 locks the folder; close the run's `folder` when nothing more is written. Nothing is written or removed before
    the config, the data and the policy are known to be usable. Raises ConfigError where the folder holds a run and
    neither `resume` nor `overwrite` is set, where it holds other files, or none to `resume`; FolderInUse where another
    process writes it.
    """
    folder = RunFolder(out, resume=resume, overwrite=overwrite)
    try:
        return _open_run(config, folder, ranks)
    except BaseException:
        folder.release()
        raise


def _open_run(config: Config, folder: RunFolder, ranks: Ranks) -> Run:
    out = folder.path
    engine = find_engine(config.engine)
    check_quantization(config.engine, config.policy)
    rollout_engine = find_rollout_engine(config.rollout.engine)
    ranks.run_on_first(lambda: folder.check(config))
    hosts = EnvRegistry()
    settings = [replace(s, loaded=replace(s.loaded, hosts=hosts)) for s in resolve_stages(config)]
    eval_task, notes = load_evaluation(config, hosts)
    times = ClipTimes()  # stages and the evaluation may share videos
    settings = [
        replace(s, loaded=check_pictures(check_gold_answers(s.loaded), times)) for s in settings
    ]
    if eval_task is not None:
        eval_task = check_pictures(check_gold_answers(eval_task), times)
    for stage in settings:
        rollout_engine.check(stage.config.rollout)
        if stage.algorithm.answers == "sampled":
            refuse_videos(rollout_engine, stage.loaded, f"stage {stage.name}")
    if eval_task is not None:
        refuse_videos(rollout_engine, eval_task, "the evaluation")
    refuse_several_ranks([(s.name, s.config, s.algorithm) for s in settings], ranks.size)
    planned = RunTasks(stages=tuple(s.loaded for s in settings), evaluation=eval_task)
    memory, disk = ranks.run_on_first(lambda: check_room(config, planned, ranks, out))
    torch.manual_seed(config.seed)
    policy = load_policy(
        config.policy,
        corpus=settings[0].loaded.text(),
        seed=config.seed,
        device=find_device(config.device),
    )
    for stage in settings:
        engine.check(stage.config.update, policy)
    if not ranks.first:  # the dropout of adapters differs from rank to rank
        torch.manual_seed(seed_from(config.seed, ranks.rank))
    settings = [without_long_prompts(stage, policy.chat, times) for stage in settings]
    if eval_task is not None:
        eval_task = check_prompts(
            eval_task,
            policy.chat,
            config.rollout.max_prompt_tokens,
            config.eval.limit,
            max_images=config.rollout.max_images,
            times=times,
        )
    named = {f"stage {s.name}": s.loaded for s in settings}
    if eval_task is not None:
        named["the evaluation"] = eval_task
    tasks = tuple(named.values())
    for loaded in tasks:
        loaded.refuse_other_resize(policy.chat.resize, policy.chat.max_prompt_pixels)
    compare_tasks(ranks, named)
    compare_weights(ranks, policy.model.named_parameters())
    # It says nothing before its first weights, when the log is there.
    place = EnginePlace(
        folder=out,
        ranks=ranks,
        say=lambda line: log.message(line),
        context=most_context([config.rollout, *(s.config.rollout for s in settings)], config.eval),
    )
    rollout = build_rollout_engine(config.rollout, policy, place)
    ranks.run_on_first(lambda: folder.claim(config))
    data = data_hashes(settings, eval_task, config.eval.split)
    log = RunLog(
        out,
        task=config.task.name,
        algorithm=settings[-1].algorithm.name,
        seed=config.seed,
        total_steps=settings[-1].last,
        trackers=config.log.trackers,
        groups_per_step=config.log.groups_per_step,
        data=data,
        ranks=ranks,
    )
    left_out = list_left_out(named, folder.path, ranks)
    warnings = warnings_of(config.policy, policy, tasks)
    for line in [*notes, *advice(settings), *left_out, *warnings]:
        log.message(line)
    gate = SamplerGate.of(rollout, ranks, log.message, wanted=config.self_check)
    prompt_states = PromptStates()
    stages = tuple(
        Stage(
            settings=stage,
            prompts=build_prompts(stage, config, policy, prompt_states),
            replay=None if stage.algorithm.replay is None else ReplayStore(stage.algorithm.replay),
            run_config=config,
            policy=policy,
            rollout=rollout,
            log=log,
            ranks=ranks,
            prompt_states=prompt_states,
            gate=gate,
        )
        for stage in settings
    )
    save = config.save
    run = Run(
        config=config,
        folder=folder,
        policy=policy,
        rollout=rollout,
        stages=stages,
        log=log,
        checkpoints=Checkpoints(out / CHECKPOINTS, save.keep_last, save.keep_best, log.message),
        eval_task=eval_task,
        prompt_states=prompt_states,
        memory=memory,
        disk=disk,
        profiler=StepProfiler(out) if config.profile and ranks.first else OFF,
        ranks=ranks,
        zero_rewards=ZeroRewards(zero_reward_limit(config, settings)),
    )
    if folder.resume:
        for line in data_changes(read_summary(out), data):
            log.message(line)
        checkpoint = restore_latest(run)
        if checkpoint is None:
            ranks.run_on_first(lambda: refuse_lost_checkpoints(run))
            log.message(f"--resume: {out} has no checkpoint yet; the run starts again at step 1")
        log.resume_from(run.step, fresh=checkpoint is None)
        run.zero_rewards.resume(row for _, row in read_log(out, METRICS))
        compare_weights(ranks, policy.model.named_parameters())
    rollout.load_weights(policy.weights(), run.step)
    return run


def most_context(rollouts: Sequence[RolloutConfig], decoding: EvalConfig) -> int:
    """The most tokens of a prompt with its completion, in the stages and in evaluations."""
    return max(r.max_prompt_tokens + max(r.max_tokens, decoding.max_tokens or 0) for r in rollouts)


def check_room(
    config: Config, tasks: RunTasks, ranks: Ranks, folder: Path
) -> tuple[str, list[str]]:
    """The verdict on the run's memory, and the lines on the room for its checkpoints. Raises ConfigError for a run that cannot
    have them."""
    verdict = check_memory(config, tasks, ranks)
    return verdict.line, check_disk(config, verdict.stages, folder) if verdict.stages else []


def zero_reward_limit(config: Config, stages: Sequence[StageSettings]) -> int:
    """Steps without a reward after which the run says so: at most as many as have rewards; 0: never."""
    steps = sum(s.last - s.first for s in stages if s.algorithm.answers == "sampled")
    return 0 if config.permute_rewards else min(config.log.zero_reward_steps, steps)


def build_prompts(
    stage: StageSettings, config: Config, policy: Policy, states: PromptStates
) -> PromptSampler:
    """The stage's prompts; images are processed ahead of their use where the policy reads images."""
    seed = seed_from(config.seed, stage.name)
    prompts = PromptSampler(stage.loaded.samples, seed, stage.strategy, states)
    if config.prefetch_threads and policy.chat.image_processor is not None:
        prompts.prefetch(policy.chat.process, config.prefetch_threads)
    return prompts
