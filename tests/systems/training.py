"""Training of rows of the catalogue by the loop itself, on rollouts that are given: two steps, each with a checkpoint.

Prompts, keep rule, selection, stored rollouts, advantages, batches, update, reference, checkpoints and ranks are the trainer's own. Given
are the rollouts, which all rows share, and the rewards of greedy answers. Checkpoints hold the trainer's state with the weights in it, and
no model folder, which is the same for all rows; they are not flushed to the disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor

from tests.systems.rollouts import (
    injected,
    question,
    step_groups,
    weights_of_rewards,
    with_rewards,
)
from vlrft.algorithms import Algorithm
from vlrft.config import BuildConfig, Config, PolicyConfig, SaveConfig, UpdateConfig
from vlrft.config.load import load_config
from vlrft.config.systems import System
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.plugins.find import find_task
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.reporting.run_log import RunLog
from vlrft.rollout.engines import RolloutEngine
from vlrft.rollout.task import LoadedTask
from vlrft.schema import Group, Sample, Task
from vlrft.scoring.weighted import WeightedReward
from vlrft.selection.prompt_sampler import PromptSampler
from vlrft.selection.prompt_state import PromptStates
from vlrft.selection.prompt_strategies import PromptStrategy
from vlrft.selection.replay import ReplayStore
from vlrft.testing.scripted_engine import ScriptedEngine
from vlrft.testing.small_policies import CORPUS, sample
from vlrft.trainer.callbacks import Callback, Callbacks
from vlrft.trainer.checkpoint import Checkpoints
from vlrft.trainer.run import Run
from vlrft.trainer.run_folder import RunFolder
from vlrft.trainer.stage import PlayedShard, Stage
from vlrft.trainer.stage_settings import StageSettings, find_choices
from vlrft.trainer.train import train_stages

groups_of = cache(step_groups)
SMALL = BuildConfig(family="qwen2", hidden_size=32, layers=1, intermediate_size=32, vocab_size=300)
SAMPLES = [sample(question(k), "7") for k in range(4)]
STEPS, LONGEST, MICRO_BATCH = 2, 16, 128  # tokens of a completion and of a micro-batch
GREEDY = 0.25  # the reward of each greedy answer


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The algorithm, prompts and weights of rewards that a stage of a row trains with. Rows with equal plans train alike."""

    algorithm: Algorithm
    strategy: PromptStrategy
    update: UpdateConfig
    weights: tuple[tuple[str, float], ...]
    turns: int


def plans_of(system: System) -> list[Plan]:
    """Those of the stages of a row. What happens every so many steps happens after each; the learning rate is another."""
    config = load_config(f"system:{system.id}")
    turns = 1 if find_task(config.task.name).env is None else 2
    weights = tuple(weights_of_rewards(config).items())
    return [
        Plan(
            algorithm=_resetting_each_step(algorithm),
            strategy=strategy,
            update=replace(
                stage.update,
                lr=1e-3,
                schedule="constant",
                warmup_steps=0,
                eps=1e-4,  # above the rounding of gradients, of which AdamW would make whole steps
                max_tokens_per_micro_batch=MICRO_BATCH,
            ),
            weights=() if algorithm.answers == "gold" else weights,
            turns=turns,
        )
        for stage, (algorithm, strategy) in zip(config.stages, find_choices(config), strict=True)
    ]


def _resetting_each_step(algorithm: Algorithm) -> Algorithm:
    """The algorithm with a reference, if it is one that is reset, that is reset after each step."""
    if algorithm.reference.update != "reset":
        return algorithm
    return replace(algorithm, reference=replace(algorithm.reference, every=1))


@dataclass(kw_only=True)
class GivenRollouts(Stage):
    """A stage whose rollouts are given. A rank has every second group."""

    plan: Plan

    def play_shard(
        self,
        step: int,
        samples: Sequence[Sample],
        attempt: int,
        *,
        engine: RolloutEngine,
        version: int,
        states: PromptStates,
    ) -> PlayedShard:
        """See `Stage.play_shard`."""
        size = self.ranks.size
        shards = [list(range(rank, len(samples), size)) for rank in range(size)]
        mine = tuple(SAMPLES.index(samples[i]) for i in shards[self.ranks.rank])
        given = groups_of(self.policy.chat, step, self.plan.turns, attempt=attempt, prompts=mine)
        groups = with_rewards(given, dict(self.plan.weights))
        if rule := self.settings.algorithm.inject:
            groups = [rule.add(g, injected(g)) if rule.wants(g) else g for g in groups]
        return PlayedShard(samples=samples, shards=shards, groups=groups)

    def greedy_rewards(self, groups: Sequence[Group], progress: float) -> list[float]:
        """See `Stage.greedy_rewards`."""
        return [GREEDY] * len(groups)


class Noting(Callback):
    """Keeps the metrics of each step."""

    def __init__(self) -> None:
        self.metrics: dict[int, Mapping[str, float]] = {}

    def on_step(self, step: int, metrics: Mapping[str, float]) -> None:
        self.metrics[step] = metrics


@dataclass(frozen=True)
class Trainer:
    """Runs of one process after another: they share the policy and the log."""

    folder: Path
    ranks: Ranks = ALONE
    save_every: int = 1  # steps; the last one is saved, too

    def train(
        self, plan: Plan, name: str, checkpoint: Path | None = None
    ) -> dict[int, Mapping[str, float]]:
        """The metrics of a run's steps, which starts with the policy as it was built, or from a checkpoint of another run. Its
        own checkpoints are FOLDER/NAME/step_K."""
        self.policy.load_weights(self.start)
        torch.manual_seed(0)
        run, noting = self._run(plan, self.folder / name), Noting()
        run.callbacks = Callbacks([noting])
        if checkpoint is not None:
            run.restore(checkpoint)
        with (
            patch.object(Policy, "save", lambda self, folder, writer: {}),
            patch("vlrft.trainer.checkpoint.sync"),
            patch("vlrft.trainer.checkpoint.sync_folder"),
        ):
            train_stages(run)
        return noting.metrics

    @cached_property
    def config(self) -> Config:
        """The settings that all plans share."""
        return replace(
            load_config("system:124"), self_check=False, save=SaveConfig(every=self.save_every)
        )

    @cached_property
    def policy(self) -> Policy:
        return load_policy(PolicyConfig(build=SMALL, dtype="float64"), corpus=CORPUS, seed=0)

    @cached_property
    def start(self) -> dict[str, Tensor]:
        return {name: w.clone() for name, w in self.policy.trained_weights().items()}

    @cached_property
    def log(self) -> RunLog:
        self.folder.mkdir(parents=True, exist_ok=True)
        return RunLog(
            self.folder,
            task="given",
            algorithm="of the plan",
            seed=0,
            total_steps=STEPS,
            groups_per_step=0,
            ranks=self.ranks,
        )

    def _run(self, plan: Plan, out: Path) -> Run:
        states, algorithm, log = PromptStates(), plan.algorithm, self.log
        rollout = ScriptedEngine(self.policy.chat, lambda request, seed: "")
        config = self.config
        stage_config = replace(
            config.stages[-1],
            steps=STEPS,
            epochs=None,
            prompts_per_step=len(SAMPLES),
            update=plan.update,
            rollout=replace(config.rollout, max_tokens=LONGEST),
        )
        stage = GivenRollouts(
            settings=StageSettings(
                name="main",
                config=stage_config,
                algorithm=algorithm,
                loaded=_given_task(plan),
                strategy=plan.strategy,
                first=0,
                last=STEPS,
            ),
            prompts=PromptSampler(SAMPLES, 0, plan.strategy, states),
            replay=None if algorithm.replay is None else ReplayStore(algorithm.replay),
            run_config=config,
            policy=self.policy,
            rollout=rollout,
            log=log,
            ranks=self.ranks,
            prompt_states=states,
            plan=plan,
        )
        return Run(
            config=config,
            folder=RunFolder(out),
            policy=self.policy,
            rollout=rollout,
            stages=(stage,),
            log=log,
            checkpoints=Checkpoints(out, 2, 0, log.message),
            eval_task=None,
            prompt_states=states,
            ranks=self.ranks,
        )


def _given_task(plan: Plan) -> LoadedTask:
    def unused(completion: str, sample: Sample) -> float:
        raise AssertionError("the rewards are given")

    task = Task(
        name="given",
        doc="Questions that are not asked.",
        load=lambda split, options: SAMPLES,
        options=dict,
        splits=("train",),
        rewards={},
        graders={},
        gold=lambda sample: str(sample.answer),
    )
    rewards = tuple(WeightedReward(name=n, weight=w, function=unused) for n, w in plan.weights)
    return LoadedTask(task=task, samples=SAMPLES, rewards=rewards)
