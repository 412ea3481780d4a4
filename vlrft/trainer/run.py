"""A run: its stages, its policy and its files. `setup.py` builds one, `train.py` is the loop over its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vlrft.config import Config
from vlrft.distributed.interrupts import StopRequest
from vlrft.distributed.phases import phase
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.engine import TrainEngine
from vlrft.evaluation.evaluate import chunk_size, evaluate
from vlrft.evaluation.result_files import missing_metrics
from vlrft.evaluation.rollouts import play_evaluation
from vlrft.policy.checkpoint_adapter import merge_note
from vlrft.policy.finite import has_finite_logprobs
from vlrft.policy.policy import Policy
from vlrft.reporting.run_log import RunLog
from vlrft.rollout.engines import RolloutEngine, close_rollout_engine
from vlrft.rollout.task import LoadedTask
from vlrft.schema import Group, Sample
from vlrft.schema.errors import CheckpointError, DivergedError
from vlrft.selection.prefetch import prefetching
from vlrft.selection.prompt_state import PromptStates
from vlrft.trainer.callbacks import Callbacks
from vlrft.trainer.checkpoint import Checkpoints
from vlrft.trainer.checkpoint_files import TrainerState, load_state
from vlrft.trainer.profiler import OFF, Profiler
from vlrft.trainer.run_folder import RunFolder
from vlrft.trainer.stage import Stage
from vlrft.trainer.state import capture_state, restore_state
from vlrft.trainer.tensor_writer import TensorWriter
from vlrft.trainer.zero_reward import ZeroRewards


@dataclass(kw_only=True)
class Run:
    """A run in progress."""

    config: Config
    folder: RunFolder
    policy: Policy
    rollout: RolloutEngine
    stages: tuple[Stage, ...]
    log: RunLog
    checkpoints: Checkpoints
    eval_task: LoadedTask | None
    """None for data without the split of `eval.split`: the run trains without evaluations."""
    prompt_states: PromptStates
    memory: str = ""  # the planner's verdict
    disk: Sequence[str] = ()  # lines on the room for checkpoints
    profiler: Profiler = OFF
    ranks: Ranks = ALONE
    step: int = 0  # finished steps
    resumed: TrainerState | None = None  # until the first stage begins
    checkpoint: Path | None = None  # the latest that was written or restored
    score: float | None = None  # mean of the latest evaluation
    callbacks: Callbacks = field(default_factory=Callbacks)
    signals: StopRequest = field(default_factory=StopRequest)
    zero_rewards: ZeroRewards = field(default_factory=lambda: ZeroRewards(0))
    saved_step: int = 0  # of the latest checkpoint
    saving: tuple[int, Path] | None = None  # step and folder of a checkpoint that is being written

    def due(self, every: int) -> bool:
        """Whether an event with a period of `every` steps is due after the current step; 0: never."""
        return every > 0 and self.step % every == 0

    def take_resumed(self, stage: Stage) -> TrainerState | None:
        """The state that the run resumed from, if that was in the middle of this stage. The run then keeps it no longer: it has
        the size of the optimiser, and its tensors hold the checkpoint's files open."""
        state, self.resumed = self.resumed, None
        inside = stage.settings.first < self.step < stage.settings.last
        return state if inside else None

    @property
    def last_step(self) -> int:
        """The last step of the last stage."""
        return self.stages[-1].settings.last

    @property
    def out(self) -> Path:
        """The path of the run's folder."""
        return self.folder.path

    @phase("evaluation")
    def evaluate(self, stage: str) -> None:
        """Evaluates the policy on the evaluation split, and logs the result under the stage's name. Without that split, nothing
        is done."""
        config, eval_task = self.config, self.eval_task
        if eval_task is None:
            return
        samples = eval_task.head(config.eval.limit)
        done = 0

        def play(chunk: Sequence[Sample]) -> Sequence[Group]:
            nonlocal done
            chat, rollout, decoding = self.policy.chat, config.rollout, config.eval
            self.log.evaluating(done, len(samples))
            groups = play_evaluation(
                eval_task, chunk, self.rollout, chat, rollout, decoding, self.ranks
            )
            done += len(chunk)
            return self.log.report_failures(groups)

        # Ranks share a chunk by its size: which images this one needs is known when it is played.
        ahead = self.ranks.size == 1 and self.policy.chat.image_processor is not None
        threads = config.prefetch_threads if ahead else 0
        with prefetching(samples, self.policy.chat.process, threads) as prepared:
            size = chunk_size(config.rollout, config.eval)
            evaluation = evaluate(eval_task, prepared, play, size)
        for line in missing_metrics(eval_task.task, evaluation):
            self.log.message(line)
        self.score = evaluation.mean
        self.log.evaluation(stage, self.step, config.eval.split, evaluation, samples)
        values = {name: value.score for name, value in evaluation.scores.items()}
        self.callbacks.evaluation(self.step, values)

    @phase("save")
    def save(self, engine: TrainEngine, reference: Policy | None) -> None:
        """Writes a checkpoint of the current step on the first rank; in the background, where `save.background` says so, after
        the one before is finished. An error there is raised on every rank, here or by `finish_save`.

        Raises DivergedError, and writes nothing, where the policy gives no finite log-probs.
        """
        if not has_finite_logprobs(self.policy, self.ranks):
            raise DivergedError(
                "the policy's log-probs are NaN or infinite, even on a short prompt"
            )
        self.finish_save()
        states = [engine.state()]
        later = self.saves_in_background

        def content(folder: Path, writer: TensorWriter) -> TrainerState:
            return capture_state(
                step=self.step,
                score=self.score,
                policy=self.policy,
                reference=reference,
                stored=self.policy.save(folder, writer),
                optimiser=states.pop(),
                stages=self.stages,
                prompt_states=self.prompt_states,
            )

        def begin() -> Path:
            return self.checkpoints.save(self.step, content, self.score, later=later)

        with engine.unsharded_on_first_rank():
            path = self.ranks.run_on_first(begin)
        self.saving = (self.step, path)
        if not later:
            self.finish_save()

    @property
    def saves_in_background(self) -> bool:
        """Whether checkpoints are written while training goes on."""
        chosen = self.config.save.background
        return self.policy.device.type != "cpu" if chosen is None else chosen

    def observe_save(self) -> None:
        """Finishes a checkpoint that has been written by now. Every rank calls it after the same step."""
        if self.saving and self.ranks.sum_count(self.ranks.first and self.checkpoints.ended):
            self.finish_save()

    def finish_save(self) -> None:
        """Waits for the checkpoint that is being written. Every rank calls it; an error is raised on each."""
        if saving := self._take_saving():
            self.ranks.run_on_first(self.checkpoints.wait)
            self._mark_saved(*saving)

    def end_save(self) -> None:
        """Waits for the checkpoint that is being written, where the run ends by an error: without the other ranks, which may
        have ended."""
        if saving := self._take_saving():
            try:
                self.checkpoints.wait()
            except CheckpointError as e:
                self.log.message(str(e))
            else:
                self._mark_saved(*saving)

    def abandon_save(self) -> None:
        """Gives up the checkpoint that is being written, where the run ends at once."""
        if self._take_saving():
            self.checkpoints.cancel()

    def _take_saving(self) -> tuple[int, Path] | None:
        saving, self.saving = self.saving, None
        return saving

    def _mark_saved(self, step: int, path: Path) -> None:
        """Makes a checkpoint that is written the latest one, and tells the callbacks."""
        self.saved_step, self.checkpoint = step, path
        if self.ranks.first and (note := merge_note(path)):
            self.log.message(note)
        self.callbacks.checkpoint(step, path)

    def restore(self, path: Path) -> None:
        """Restores the run from a checkpoint."""
        state = load_state(path)
        self.resumed, self.step, self.score = (
            state,
            int(state.values["step"]),
            state.values["score"],
        )
        self.saved_step = self.step
        restore_state(
            state,
            policy=self.policy,
            stages=self.stages,
            prompt_states=self.prompt_states,
            ranks=self.ranks,
            seed=self.config.seed,
        )

    def close(self) -> None:
        """Closes the log, and ends threads, servers, and the worker processes of rewards and environments; the folder stays
        locked."""
        close_rollout_engine(self.rollout)
        self.log.close()
        for stage in self.stages:
            stage.prompts.close()
        for loaded in (self.eval_task, *(stage.settings.loaded for stage in self.stages)):
            if loaded is not None:
                loaded.close()
