"""A stage of a run: collects groups, computes advantages and batches, and builds the train engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from vlrft.advantages import Estimator
from vlrft.advantages.rows import RowAdvantages, estimate_step
from vlrft.config import Config
from vlrft.distributed.phases import phase
from vlrft.distributed.ranks import Ranks
from vlrft.distributed.sharding import gather_groups, shard_by_size
from vlrft.engine import TrainEngine, build_engine
from vlrft.evaluation.rollouts import play_evaluation
from vlrft.policy.policy import Policy
from vlrft.reporting.run_log import RunLog
from vlrft.rollout.demonstrations import DemonstrationCache, learn_observations
from vlrft.rollout.engines import RolloutEngine, Sampling
from vlrft.rollout.injection import inject_gold
from vlrft.rollout.permute_rewards import permute_step
from vlrft.rollout.play import drop_failed, play
from vlrft.rollout.prompt_size import prompt_size
from vlrft.rollout.seeds import seed_from
from vlrft.schema import ENVIRONMENT, Group, Sample
from vlrft.selection.collect import Collected, collect
from vlrft.selection.prompt_sampler import PromptSampler, count_drawn
from vlrft.selection.prompt_state import PromptStates
from vlrft.selection.replay import ReplayStore
from vlrft.selection.rollout_filters import select_and_estimate
from vlrft.trainer.batch import Batch, make_batches
from vlrft.trainer.checkpoint_files import TrainerState
from vlrft.trainer.sampler_gate import SamplerGate
from vlrft.trainer.stage_settings import StageSettings


@dataclass(frozen=True, kw_only=True)
class PlayedShard:
    """The samples of one attempt of a step, which rank plays which of them, and this rank's groups."""

    samples: Sequence[Sample]
    shards: Sequence[Sequence[int]]  # indices of the samples, by rank
    groups: Sequence[Group]


@dataclass(kw_only=True)
class Stage:
    """A stage with its own prompts and stored rollouts, and the parts of the run that it shares with other stages."""

    settings: StageSettings
    prompts: PromptSampler
    replay: ReplayStore | None
    run_config: Config
    policy: Policy
    rollout: RolloutEngine
    log: RunLog
    ranks: Ranks
    prompt_states: PromptStates
    gate: SamplerGate | None = (
        None  # of the run; None for an engine that shares the policy's module
    )
    unchecked: bool = False
    """Whether `self_check` is still due: the stage was started, not resumed, and no step has had rows."""
    demonstrations: DemonstrationCache = field(default_factory=DemonstrationCache)
    failed_episodes: int = 0  # in the current step, because of their environment
    place: dict[str, Any] | None = None
    """The prompt sampler's state as of the last admitted step, where prompts are drawn ahead of it."""

    def collect(self, step: int) -> Collected:
        """The step's groups on every rank: prompts are drawn and played until the algorithm keeps enough groups."""
        size = self.settings.config.prompts_per_step
        return collect(self.prompts, partial(self.play, step), self.settings.algorithm.keep, size)

    def play(self, step: int, samples: Sequence[Sample], attempt: int) -> list[Group]:
        """Demonstrations, or rollouts of the current policy: one group per sample, without groups that a failed
        environment excludes."""
        if self.settings.algorithm.answers != "sampled":
            return self._demonstrate(samples)
        engine, states = self.rollout, self.prompt_states
        shard = self.play_shard(
            step, samples, attempt, engine=engine, version=step - 1, states=states
        )
        return self.admit(step, attempt, shard)

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
        """Rollouts of this rank's shard of the samples. Nothing is recorded, and no other rank is asked. `version`: the step
        after which the engine got its weights."""
        settings, rollout = self.settings, self.settings.config.rollout
        progress = settings.progress(step)
        seed = self._seed(step, attempt)
        lengths = states.lengths([s.id for s in samples], rollout.max_tokens)
        prompt_sizes = zip(self._prompt_sizes(samples), lengths, strict=True)
        sizes = [prompt + rollout.group_size * length for prompt, length in prompt_sizes]
        shards = shard_by_size(sizes, self.ranks.size)
        shard = shards[self.ranks.rank]
        groups = play(
            settings.loaded,
            [samples[i] for i in shard],
            engine,
            self.policy.chat,
            replace(Sampling.of(rollout), signals=settings.algorithm.estimator.sampled_signals),
            seeds=[
                [seed_from(*seed, samples[i].id, i, g) for g in range(rollout.group_size)]
                for i in shard
            ],
            policy_step=version,
            progress=progress,
        )
        if rule := settings.algorithm.inject:
            groups = inject_gold(rule, groups, settings.loaded, self.policy.chat, progress)
        return PlayedShard(samples=samples, shards=shards, groups=groups)

    def admit(self, step: int, attempt: int, shard: PlayedShard) -> list[Group]:
        """The usable groups of all ranks' shards, which are now part of the run."""
        groups = gather_groups(shard.groups, shard.samples, shard.shards, self.ranks)
        self.log.report_failures(groups)
        failed = sum(ENVIRONMENT in r.errors for g in groups for r in g.rollouts)
        self.failed_episodes = failed + (self.failed_episodes if attempt else 0)
        groups = self.usable(step, attempt, groups)
        self.prompt_states.observe(groups)
        return groups

    def usable(self, step: int, attempt: int, groups: Sequence[Group]) -> list[Group]:
        """The groups without those that a failed environment excludes, their rewards permuted where the config says so."""
        settings = self.settings
        left = drop_failed(groups, settings.loaded.env, settings.algorithm.min_group)
        if self.run_config.permute_rewards:
            seed = self._seed(step, attempt)
            left = permute_step(left, lambda name: seed_from(*seed, name))
        return left

    def _seed(self, step: int, attempt: int) -> tuple[int, str, int, int]:
        return self.run_config.seed, self.settings.name, step, attempt

    @property
    def prompts_state(self) -> dict[str, Any]:
        """The prompt sampler's state as of the last admitted step."""
        return self.prompts.state_dict() if self.place is None else self.place

    def _demonstrate(self, samples: Sequence[Sample]) -> list[Group]:
        shards = shard_by_size(self._prompt_sizes(samples), self.ranks.size)
        shard = [samples[i] for i in shards[self.ranks.rank]]
        groups = self.demonstrations.play(self.settings.loaded, shard, self.policy.chat)
        if self.settings.algorithm.answers == "gold_and_observations":
            never = self.policy.banned.nonzero()[:, 0].tolist()
            groups = learn_observations(groups, frozenset(never))
        return gather_groups(groups, samples, shards, self.ranks)

    def _prompt_sizes(self, samples: Sequence[Sample]) -> list[float]:
        return [prompt_size(s, self.policy.chat.resize) for s in samples]

    @phase("advantages")
    def select_and_estimate(
        self, step: int, groups: Sequence[Group]
    ) -> tuple[list[Group], list[RowAdvantages]]:
        """The groups to train on, with stored rollouts added and unselected rollouts removed, and their advantages."""
        algorithm = self.settings.algorithm_at(step)
        mixed = groups if self.replay is None else self.replay.mix(groups)
        progress = self.settings.progress(step)
        estimate = partial(self._estimate, estimator=algorithm.estimator, progress=progress)
        return select_and_estimate(
            mixed,
            algorithm.select,
            estimate,
            min_estimated=algorithm.estimator.min_group,
            min_trained=algorithm.min_trained,
        )

    def _estimate(
        self, groups: Sequence[Group], estimator: Estimator, progress: float
    ) -> list[RowAdvantages]:
        """The advantages of the groups; what the estimator notes about their prompts is kept for their next visit."""
        names = [g.sample.id for g in groups]
        estimated = estimate_step(
            groups,
            estimator,
            weights={r.name: r.weight for r in self.settings.loaded.rewards},
            max_tokens=self.settings.config.rollout.max_tokens,
            greedy=self.greedy_rewards(groups, progress) if estimator.greedy else None,
            progress=progress,
            history=self.prompt_states.notes(names),
        )
        self.prompt_states.note(names, estimated.notes)
        return estimated.rows

    def greedy_rewards(self, groups: Sequence[Group], progress: float) -> list[float]:
        """The reward of a greedy answer to each group's sample [P], when this share of the stage is done."""
        answers = play_evaluation(
            self.settings.loaded,
            [g.sample for g in groups],
            self.rollout,
            self.policy.chat,
            self.settings.config.rollout,
            ranks=self.ranks,
            progress=progress,
        )
        return [g.rewards[0] for g in self.log.report_failures(answers)]

    def make_batches(
        self, groups: Sequence[Group], advantages: Sequence[RowAdvantages]
    ) -> list[Batch]:
        """A batch for each optimiser step on these groups."""
        config = self.settings.config
        return make_batches(
            groups,
            advantages,
            self.settings.algorithm,
            temperature=self.settings.temperature,
            max_tokens=config.rollout.max_tokens,
            updates=config.update.updates_per_batch,
            ranks=self.ranks,
        )

    def build_engine(self, resumed: TrainerState | None) -> TrainEngine:
        """The stage's train engine. `resumed`: the checkpoint that the stage resumes from, None for a new stage."""
        settings = self.settings
        steps = settings.last - settings.first
        kind = self.run_config.engine
        engine = build_engine(settings.config.update, self.policy, steps, self.ranks, kind)
        if resumed is not None:
            engine.load_state(resumed.under("optimizer"), resumed.values["optimizer"])
        return engine

    def prompt_metrics(self) -> dict[str, float]:
        """The epoch of the stage's prompts, the share of stale prompts, and the number of the step's episodes whose
        environment failed, including dropped episodes."""
        settings = self.settings
        episodes = settings.loaded.task.env is not None and settings.algorithm.answers == "sampled"
        return {
            **({"env/errors": self.failed_episodes} if episodes else {}),
            "prompts/epoch": count_drawn(self.prompts_state) / len(self.prompts.samples),
            "prompts/stale_share": self.prompt_states.stale_share(),
        }
