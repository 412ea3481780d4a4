"""A run is put together here: stages, policy, log and checkpoints, in a fresh folder or from the last checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import torch

from vlrft.algorithms import find_algorithm
from vlrft.config import Config, StageConfig
from vlrft.config.load import dump_config, load_config
from vlrft.distributed.device import pick_device
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.engine import find_engine
from vlrft.envs import EnvRegistry
from vlrft.objectives import Advising
from vlrft.policy.load import load_policy
from vlrft.reporting.run_log import RunLog
from vlrft.rollout.engines import build_rollout_engine, find_rollout_engine
from vlrft.rollout.play import seed_from
from vlrft.rollout.task import load_task
from vlrft.schema.errors import ConfigError
from vlrft.selection.prompt_sampler import PromptSampler, find_prompt_strategy
from vlrft.selection.prompt_state import PromptStates
from vlrft.selection.replay import ReplayStore
from vlrft.tracing.profiler import OFF, StepProfiler
from vlrft.trainer.checkpoint import Checkpoints
from vlrft.trainer.run import Run, Stage

CORPUS_SAMPLES = 256  # enough text for a built tokenizer to meet every phrase of a pack


def open_run(
    config: Config, out: Path, ranks: Ranks = ALONE, *, resume: bool, overwrite: bool
) -> Run:
    """A fresh run in an empty folder, or one that goes on from its last good checkpoint, with as many ranks as there
    are now.

    Raises ConfigError when the folder holds a run already and neither `resume` nor `overwrite` is given.
    """
    engine = find_engine(config.engine)
    rollout_engine = find_rollout_engine(config.rollout.engine)
    ranks.run_on_first(lambda: clear(config, out, resume=resume, overwrite=overwrite))
    states = PromptStates()
    stages = make_stages(config, states)
    hosts = EnvRegistry()
    for stage in stages:
        stage.loaded = replace(stage.loaded, hosts=hosts)
    eval_task = replace(load_task(config.task, config.eval.split), hosts=hosts)
    tasks = (*(stage.loaded for stage in stages), eval_task)
    for loaded in tasks:
        loaded.refuse_unreadable_gold_answers()
    torch.manual_seed(config.seed)
    policy = load_policy(
        config.policy,
        corpus=stages[0].loaded.text(CORPUS_SAMPLES),
        seed=config.seed,
        device=pick_device(config.device),
    )
    for stage in stages:
        engine.check(stage.config.update, policy)
        rollout_engine.check(stage.config.rollout)
    if not ranks.first:  # the dropout of adapters differs from rank to rank
        torch.manual_seed(seed_from(config.seed, ranks.rank))
    for loaded in tasks:
        loaded.refuse_other_resize(policy.chat.resize)
    if config.prefetch_threads and policy.chat.image_processor is not None:
        for stage in stages:
            stage.prompts.prefetch(policy.chat.process_image, config.prefetch_threads)
    ranks.run_on_first(lambda: begin(config, out))
    log = RunLog(
        out,
        task=config.task.name,
        algorithm=stages[-1].algorithm.name,
        seed=config.seed,
        total_steps=stages[-1].last,
        trackers=config.log.trackers,
        groups_per_step=config.log.groups_per_step,
        ranks=ranks,
    )
    for line in advice(stages):
        log.message(line)
    save = config.save
    run = Run(
        config=config,
        out=out,
        policy=policy,
        rollout=build_rollout_engine(config.rollout, policy),
        stages=stages,
        log=log,
        checkpoints=Checkpoints(out / "checkpoints", save.keep_last, save.keep_best, log.message),
        eval_task=eval_task,
        profiler=StepProfiler(out) if config.profile and ranks.first else OFF,
        ranks=ranks,
        states=states,
    )
    if resume:
        found = ranks.run_on_first(run.checkpoints.latest)
        if found is not None:
            run.restore(found)
        log.resume_from(run.step, fresh=found is None)
    run.rollout.load_weights(policy.weights(), run.step)
    return run


def clear(config: Config, out: Path, *, resume: bool, overwrite: bool) -> None:
    """Looks at what is in the folder, and takes an older run away where that is asked for."""
    began = out / "config.yaml"
    if began.exists() and not resume:
        if not overwrite:
            raise ConfigError([f"{out} holds a run; use --resume, --overwrite or another --out"])
        shutil.rmtree(out)
    if began.exists():
        refuse_changes(load_config(began), config, began)


def begin(config: Config, out: Path) -> None:
    """The folder with the resolved config in it. Raises ConfigError where it cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "config.yaml").write_text(dump_config(config))
    except OSError as e:
        raise ConfigError(
            [f"{out}: cannot be written ({e.strerror}); choose another --out"]
        ) from None


def make_stages(config: Config, states: PromptStates | None = None) -> tuple[Stage, ...]:
    """The stages with their tasks and methods. Raises ConfigError for a method that the settings do not fit."""
    stages: list[Stage] = []
    mistakes: list[str] = []
    done = 0
    for i, stage in enumerate(config.stages):
        assert stage.algorithm is not None
        assert stage.name is not None
        algorithm = find_algorithm(stage.algorithm)
        smallest = algorithm.estimator.min_group
        if algorithm.answers == "sampled" and stage.rollout.group_size < smallest:
            mistakes.append(
                f"stages.{i}.rollout.group_size: {stage.rollout.group_size}, but {algorithm.name} compares the "
                f"rollouts of a group: use at least {smallest}"
            )
        if algorithm.reference.update != "never" and config.policy.lora is not None:
            mistakes.append(
                f"stages.{i}.algorithm.reference.update: {algorithm.reference.update}, but with policy.lora the "
                "reference is the model without its adapters: use never"
            )
        loaded = load_task(stage.task, "train")
        if algorithm.replay is not None and loaded.task.env is not None:
            mistakes.append(
                f"stages.{i}.algorithm.replay: plays of an environment are not stored; {loaded.task.name} has one"
            )
        steps = steps_of(stage, len(loaded.samples))
        strategy = find_prompt_strategy(stage.prompts, f"stages.{i}.prompts")
        seed = seed_from(config.seed, stage.name)
        replay = None if algorithm.replay is None else ReplayStore(algorithm.replay)
        stages.append(
            Stage(
                name=stage.name,
                config=replace(stage, steps=steps, epochs=None),
                algorithm=algorithm,
                loaded=loaded,
                prompts=PromptSampler(loaded.samples, seed, strategy, states),
                replay=replay,
                first=done,
                last=done + steps,
            )
        )
        done += steps
    if mistakes:
        raise ConfigError(mistakes)
    return tuple(stages)


def steps_of(stage: StageConfig, samples: int) -> int:
    """The stage's steps, counted where it names epochs."""
    if stage.steps is not None:
        return stage.steps
    assert stage.epochs is not None
    return max(1, round(stage.epochs * samples / stage.prompts_per_step))


def advice(stages: Sequence[Stage]) -> list[str]:
    """What the methods have to say about the settings of their stages."""
    told: list[str] = []
    for stage in stages:
        rollout, objective = stage.config.rollout, stage.algorithm.objective
        if isinstance(objective, Advising):
            lines = objective.advice(
                updates_per_batch=stage.config.update.updates_per_batch,
                full_support=rollout.top_p == 1.0 and rollout.top_k == 0,
            )
            told += [f"{stage.name}: {line}" for line in lines]
    return told


def refuse_changes(old: Config, new: Config, where: Path) -> None:
    """A run goes on with the settings it began with; where it runs and what it writes may change.

    Raises ConfigError naming the sections that differ.
    """
    free = ("device", "engine", "prefetch_threads", "log", "profile", "ranks", "save", "self_check")
    changed = [
        f.name
        for f in fields(old)
        if f.name not in free and getattr(old, f.name) != getattr(new, f.name)
    ]
    if changed:
        raise ConfigError(
            [
                f"--resume: {', '.join(changed)} differ from {where}; go on with that file, or use another --out"
            ]
        )
