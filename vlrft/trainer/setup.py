"""Setup of a run: its stages, policy, log and checkpoints, in a new folder or from the last checkpoint."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import torch

from vlrft.config import Config
from vlrft.config.load import dump_config, load_config, stored_sections
from vlrft.distributed.device import pick_device
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.engine import find_engine
from vlrft.envs import EnvRegistry
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.reporting.run_log import RunLog
from vlrft.rollout.engines import build_rollout_engine, find_rollout_engine
from vlrft.rollout.play import seed_from
from vlrft.rollout.task import load_task
from vlrft.schema.errors import ConfigError
from vlrft.selection.prompt_sampler import PromptSampler
from vlrft.selection.prompt_state import PromptStates
from vlrft.selection.replay import ReplayStore
from vlrft.tracing.profiler import OFF, StepProfiler
from vlrft.trainer.checkpoint import Checkpoints
from vlrft.trainer.divergence import restore_latest
from vlrft.trainer.run import Run
from vlrft.trainer.stage import Stage
from vlrft.trainer.stage_settings import StageSettings, advice, resolve_stages


def open_run(
    config: Config, out: Path, ranks: Ranks = ALONE, *, resume: bool, overwrite: bool
) -> Run:
    """A new run in an empty folder, or one that resumes from its last intact checkpoint, on any number of ranks.

    Raises ConfigError where the folder contains a run and neither `resume` nor `overwrite` is set.
    """
    engine = find_engine(config.engine)
    rollout_engine = find_rollout_engine(config.rollout.engine)
    ranks.run_on_first(lambda: clear_folder(config, out, resume=resume, overwrite=overwrite))
    hosts = EnvRegistry()
    settings = [replace(s, loaded=replace(s.loaded, hosts=hosts)) for s in resolve_stages(config)]
    eval_task = replace(load_task(config.task, config.eval.split), hosts=hosts)
    tasks = (*(stage.loaded for stage in settings), eval_task)
    for loaded in tasks:
        loaded.refuse_unreadable_gold_answers()
    for stage in settings:
        rollout_engine.check(stage.config.rollout)
    torch.manual_seed(config.seed)
    policy = load_policy(
        config.policy,
        corpus=settings[0].loaded.text(),
        seed=config.seed,
        device=pick_device(config.device),
    )
    for stage in settings:
        engine.check(stage.config.update, policy)
    if not ranks.first:  # the dropout of adapters differs from rank to rank
        torch.manual_seed(seed_from(config.seed, ranks.rank))
    for loaded in tasks:
        loaded.refuse_other_resize(policy.chat.resize)
    ranks.run_on_first(lambda: write_config(config, out))
    log = RunLog(
        out,
        task=config.task.name,
        algorithm=settings[-1].algorithm.name,
        seed=config.seed,
        total_steps=settings[-1].last,
        trackers=config.log.trackers,
        groups_per_step=config.log.groups_per_step,
        ranks=ranks,
    )
    for line in advice(settings):
        log.message(line)
    rollout = build_rollout_engine(config.rollout, policy)
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
        )
        for stage in settings
    )
    save = config.save
    run = Run(
        config=config,
        out=out,
        policy=policy,
        rollout=rollout,
        stages=stages,
        log=log,
        checkpoints=Checkpoints(out / "checkpoints", save.keep_last, save.keep_best, log.message),
        eval_task=eval_task,
        prompt_states=prompt_states,
        profiler=StepProfiler(out) if config.profile and ranks.first else OFF,
        ranks=ranks,
    )
    if resume:
        checkpoint = restore_latest(run)
        log.resume_from(run.step, fresh=checkpoint is None)
    rollout.load_weights(policy.weights(), run.step)
    return run


def build_prompts(
    stage: StageSettings, config: Config, policy: Policy, states: PromptStates
) -> PromptSampler:
    """The stage's prompts; images are processed ahead of their use where the policy reads images."""
    seed = seed_from(config.seed, stage.name)
    prompts = PromptSampler(stage.loaded.samples, seed, stage.strategy, states)
    if config.prefetch_threads and policy.chat.image_processor is not None:
        prompts.prefetch(policy.chat.process_image, config.prefetch_threads)
    return prompts


def clear_folder(config: Config, out: Path, *, resume: bool, overwrite: bool) -> None:
    """With `overwrite`, deletes the run in the folder; with `resume`, checks that its config is the same.

    Raises ConfigError where the config differs, or where the folder contains a run and neither is set.
    """
    written = out / "config.yaml"
    if written.exists() and not resume:
        if not overwrite:
            raise ConfigError([f"{out} holds a run; use --resume, --overwrite or another --out"])
        shutil.rmtree(out)
    if written.exists():
        refuse_changes(load_config(written, secrets=False), config, written)


def write_config(config: Config, out: Path) -> None:
    """Creates the run's folder with the resolved config in it. Raises ConfigError where it cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "config.yaml").write_text(dump_config(config))
    except OSError as e:
        raise ConfigError(
            [f"{out}: cannot be written ({e.strerror}); choose another --out"]
        ) from None


def refuse_changes(old: Config, new: Config, where: Path) -> None:
    """Raises ConfigError, naming the sections, where a resumed run's config differs from the one that it started with.
    Settings of the machine and of the output files may change."""
    free = ("device", "engine", "prefetch_threads", "log", "profile", "ranks", "save", "self_check")
    sections = stored_sections(old), stored_sections(new)  # secrets are not stored
    changed = [k for k in sections[0] if k not in free and sections[0][k] != sections[1][k]]
    if changed:
        raise ConfigError(
            [
                f"--resume: {', '.join(changed)} differ from {where}; use that config, or another --out"
            ]
        )
