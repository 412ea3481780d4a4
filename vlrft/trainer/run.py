"""What a run holds and what can be asked of it: groups, an optimiser, an evaluation, a checkpoint. `assemble.py` makes
one, `train.py` is the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vlrft.advantages.rows import RowAdvantages, estimate_rows
from vlrft.algorithms import Algorithm
from vlrft.config import Config, StageConfig
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.distributed.sharding import dealt, prompt_size
from vlrft.engine import TrainEngine, build_engine
from vlrft.evaluation.evaluate import evaluate
from vlrft.evaluation.result_files import missing_metrics
from vlrft.evaluation.rollouts import player
from vlrft.policy.policy import Policy
from vlrft.reporting.run_log import RunLog
from vlrft.rollout.demonstrations import DemonstrationCache
from vlrft.rollout.engines import RolloutEngine, Sampling
from vlrft.rollout.permute_rewards import permute_rewards
from vlrft.rollout.play import drop_failed, play, seed_from
from vlrft.rollout.task import LoadedTask
from vlrft.schema import ENVIRONMENT, Group, Sample
from vlrft.selection.prompt_sampler import PromptSampler
from vlrft.selection.prompt_state import PromptStates
from vlrft.selection.replay import ReplayStore
from vlrft.selection.rollout_filters import select_and_estimate
from vlrft.tracing.phases import phase
from vlrft.tracing.profiler import OFF, Profiler
from vlrft.trainer.checkpoint import Checkpoints, TrainerState
from vlrft.trainer.state import put_back, taken


@dataclass(kw_only=True)
class Stage:
    """One stage of a run. `first` steps were done before it, `last` will be after it."""

    name: str
    config: StageConfig
    algorithm: Algorithm
    loaded: LoadedTask
    prompts: PromptSampler
    replay: ReplayStore | None
    first: int
    last: int
    golds: DemonstrationCache = field(default_factory=DemonstrationCache)

    @property
    def temperature(self) -> float:
        """Of the distribution that is trained: the sampled one, or the plain one for given answers."""
        return self.config.rollout.temperature if self.algorithm.answers == "sampled" else 1.0


@dataclass(kw_only=True)
class Run:
    """Everything that the loop holds."""

    config: Config
    out: Path
    policy: Policy
    rollout: RolloutEngine
    stages: tuple[Stage, ...]
    log: RunLog
    checkpoints: Checkpoints
    eval_task: LoadedTask
    profiler: Profiler = OFF
    ranks: Ranks = ALONE
    states: PromptStates = field(default_factory=PromptStates)
    step: int = 0  # optimisation steps that are done
    resumed: TrainerState | None = None
    score: float | None = None  # mean of the latest evaluation
    broken: int = 0  # plays of the present step that their environment cut short

    def groups(
        self, stage: Stage, step: int, samples: Sequence[Sample], attempt: int
    ) -> list[Group]:
        """A group a sample: the gold answers, or rollouts of the present policy."""
        prompts = [prompt_size(s, self.policy.chat.resize) for s in samples]
        if stage.algorithm.answers == "gold":

            def own_golds(own: Sequence[int]) -> list[Group]:
                chat, loaded = self.policy.chat, stage.loaded
                return stage.golds.groups([samples[i] for i in own], loaded, chat)

            return dealt(samples, own_golds, self.ranks, prompts)
        lengths = self.states.lengths([s.id for s in samples], stage.config.rollout.max_tokens)
        seed = (self.config.seed, stage.name, step, attempt)
        sizes = range(stage.config.rollout.group_size)

        def play_own(own: Sequence[int]) -> list[Group]:
            return play(
                [samples[i] for i in own],
                task=stage.loaded.task,
                rewards=stage.loaded.rewards,
                engine=self.rollout,
                chat=self.policy.chat,
                sampling=Sampling.of(stage.config.rollout),
                seeds=[[seed_from(*seed, samples[i].id, i, g) for g in sizes] for i in own],
                policy_step=step - 1,
                host=stage.loaded.host,
                limits=stage.loaded.env,
            )

        tokens = [p + len(sizes) * own for p, own in zip(prompts, lengths, strict=True)]
        groups = dealt(samples, play_own, self.ranks, tokens)
        self.log.failures(groups)
        broken = sum(ENVIRONMENT in r.errors for g in groups for r in g.rollouts)
        self.broken = broken + (self.broken if attempt else 0)
        groups = drop_failed(groups, stage.loaded.env, stage.algorithm.estimator.min_group)
        if self.config.permute_rewards:
            groups = [permute_rewards(g, seed_from(*seed, g.sample.id)) for g in groups]
        self.states.observe(groups)
        return groups

    def greedy(self, stage: Stage, groups: Sequence[Group]) -> list[float]:
        """The reward of one answer without chance to each group's sample [P]."""
        play = player(
            stage.loaded, self.rollout, self.policy.chat, stage.config.rollout, ranks=self.ranks
        )
        return [g.rewards[0] for g in self.log.failures(play([g.sample for g in groups]))]

    @phase("advantages")
    def lesson(
        self, stage: Stage, groups: Sequence[Group]
    ) -> tuple[list[Group], list[RowAdvantages]]:
        """What a step learns from: the groups with stored rollouts, without those that are not selected, and advantages."""
        algorithm = stage.algorithm

        def estimate(taught: Sequence[Group]) -> list[RowAdvantages]:
            return estimate_rows(
                taught,
                algorithm.estimator,
                weights={r.name: r.weight for r in stage.loaded.rewards},
                max_tokens=stage.config.rollout.max_tokens,
                greedy=self.greedy(stage, taught) if algorithm.estimator.greedy else None,
            )

        mixed = groups if stage.replay is None else stage.replay.mix(groups)
        return select_and_estimate(mixed, algorithm.select, estimate)

    def engine(self, stage: Stage) -> TrainEngine:
        """The stage's own optimiser, where the checkpoint left it when the run resumes within the stage."""
        steps = stage.last - stage.first
        kind = self.config.engine
        engine = build_engine(stage.config.update, self.policy, steps, self.ranks, kind)
        if self.resumed is not None and stage.first < self.step < stage.last:
            moments = self.resumed.under("optimizer")
            engine.load_state(moments, self.resumed.values["optimizer"])
        return engine

    def reference(self, stage: Stage) -> Policy | None:
        """The policy that began the stage, when the method needs one (LoRA: the model without adapters)."""
        if not stage.algorithm.needs.ref_logprobs:
            return None
        reference = self.policy.reference()
        if self.resumed is not None and stage.first < self.step < stage.last:
            reference.load_weights(self.resumed.under("reference"))
        return reference

    def follow(self, stage: Stage, engine: TrainEngine, reference: Policy | None) -> None:
        """Moves the reference after a step, where the method says so."""
        rule = stage.algorithm.reference
        if reference is None or rule.update == "never":
            return
        if rule.update == "ema":
            with engine.unsharded():
                reference.approach(self.policy, 1 - rule.decay)
        elif (self.step - stage.first) % rule.every == 0:
            with engine.unsharded():
                reference.load_weights(self.policy.trained())

    def prompt_metrics(self, stage: Stage) -> dict[str, float]:
        """How often the stage has gone through its prompts, how many of those met have stopped to teach, and how many of
        the step's plays their environment cut short, those that left it included."""
        plays = stage.loaded.task.env is not None and stage.algorithm.answers == "sampled"
        return {
            **({"env/errors": self.broken} if plays else {}),
            "prompts/epoch": stage.prompts.epoch,
            "prompts/stale_share": self.states.stale_share(),
        }

    def due(self, every: int) -> bool:
        """Whether something that happens every so many steps happens now; 0: never."""
        return every > 0 and self.step % every == 0

    @phase("evaluation")
    def evaluate(self, stage: str) -> None:
        """Answers to the evaluation split; logged under the stage's name."""
        config = self.config
        samples = self.eval_task.head(config.eval.limit)
        play = player(
            self.eval_task, self.rollout, self.policy.chat, config.rollout, config.eval, self.ranks
        )
        found = evaluate(self.eval_task, samples, lambda chunk: self.log.failures(play(chunk)))
        for line in missing_metrics(self.eval_task.task, found):
            self.log.message(line)
        self.score = found.mean
        self.log.evaluation(stage, self.step, config.eval.split, found, samples)

    def close(self) -> None:
        """Ends what the run started: the log, threads, and the processes of its rewards."""
        self.log.close()
        for stage in self.stages:
            stage.prompts.close()
        for loaded in (self.eval_task, *(stage.loaded for stage in self.stages)):
            loaded.close()

    @phase("save")
    def save(self, engine: TrainEngine, reference: Policy | None) -> Path:
        """A checkpoint of the present step, written by the first rank; every rank learns whether that went well."""
        moments, counters = engine.state()
        with engine.unsharded_on_first_rank():
            return self.ranks.run_on_first(
                lambda: self.checkpoints.save(
                    self.step,
                    self.policy.save,
                    taken(self, reference, moments, counters),
                    self.score,
                )
            )

    def restore(self, path: Path) -> None:
        """Continues from a checkpoint."""
        self.resumed = self.checkpoints.load_state(path)
        put_back(self, self.resumed)
