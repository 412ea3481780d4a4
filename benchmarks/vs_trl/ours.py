"""vlrft's side: the parts of `vlrft.trainer.train.train_stage`, in its order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benchmarks.vs_trl.cases import Job
from benchmarks.vs_trl.data import Question, count_text_ids, question, variety
from benchmarks.vs_trl.gate import Gate
from benchmarks.vs_trl.meter import Meter
from vlrft.advantages.rows import estimate_rows
from vlrft.algorithms import ALGORITHMS, Algorithm
from vlrft.config import PolicyConfig, UpdateConfig
from vlrft.engine.single import SingleEngine
from vlrft.objectives import LossBatch, Needs, Objective, Terms
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.rollout.play import play
from vlrft.rollout.seeds import seed_from
from vlrft.rollout.task import LoadedTask
from vlrft.schema import IMAGE, Group, Message, Piece, Rollout, Sample, Task, TrainingRow
from vlrft.scoring.weighted import WeightedReward
from vlrft.trainer.batch import make_batches
from vlrft.trainer.update import update

ALGORITHM = ALGORITHMS["dr_grpo"]
UPDATE = UpdateConfig(lr=1e-6)
STEPS = 10**6  # of the schedule, which is constant
REWARD = WeightedReward(name="variety", weight=1.0, function=lambda completion, sample: variety(completion))  # fmt: skip
TASK = Task(
    name="vs_trl", doc="", options=object, splits=("train",), load=lambda split, options: [],
    rewards={}, graders={}, gold=lambda sample: "",
)  # fmt: skip
LOADED = LoadedTask(task=TASK, samples=(), rewards=(REWARD,))


class RecordingObjective:
    """Another objective, which also sums A log π; its gradient at the first update is that of the loss, up to the sign."""

    def __init__(self, inner: Objective) -> None:
        self.inner = inner
        self.sum = self.size = 0.0

    @property
    def needs(self) -> Needs:
        return self.inner.needs

    def __call__(self, logprobs: Tensor, batch: LossBatch) -> Terms:
        weighted = logprobs.detach() * batch.advantages * batch.mask
        self.sum += float(weighted.sum())
        self.size += float(weighted.abs().sum())
        return self.inner(logprobs, batch)


class VlrftSide:
    """A policy with its optimiser, its engine and the case's questions."""

    def __init__(self, job: Job) -> None:
        self.case = job.case
        self.policy = load_policy(PolicyConfig(model=str(job.folder), dtype="float32"), device=job.device)  # fmt: skip
        self.engine = SingleEngine(UPDATE, self.policy, STEPS)
        self.rollout = HfEngine(self.policy)
        self.text_ids = count_text_ids(self.policy.chat.tokenizer)
        self.control_ids = self.policy.chat.banned_ids | self.policy.chat.end_ids
        self.policy.chat.end_ids = frozenset()  # every completion is as long as it may be

    def questions(self, step: int) -> list[Question]:
        size = self.case.prompts
        return [question(self.case, step * size + k, self.text_ids) for k in range(size)]

    def recorded_groups(self, step: int) -> list[Group]:
        """Groups of the recorded completions."""
        return [self._group(item) for item in self.questions(step)]

    def _group(self, item: Question) -> Group:
        sample = make_sample(item)
        prompt = self.policy.chat.render(sample.messages, sample.images)
        rollouts = tuple(
            Rollout(sample=sample, rows=(TrainingRow(prompt=prompt, pieces=(Piece(ids=ids, text=""),)),), reward=reward)
            for ids, reward in zip(item.completions, item.rewards, strict=True)
        )  # fmt: skip
        return Group(sample=sample, rollouts=rollouts)

    def sample_groups(self, samples: Sequence[Sample], step: int) -> list[Group]:
        """Groups that the policy generates; includes rendering the prompts."""
        return play(
            LOADED,
            samples,
            self.rollout,
            self.policy.chat,
            Sampling(max_tokens=self.case.length),
            seeds=[[seed_from(step, s.id, g) for g in range(self.case.group)] for s in samples],
        )

    def update(self, groups: Sequence[Group], algorithm: Algorithm = ALGORITHM) -> float:
        """Estimate advantages, pack, make one optimiser step; return the loss."""
        length = self.case.length
        batches = make_batches(
            groups,
            estimate_rows(groups, algorithm.estimator, max_tokens=length),
            algorithm,
            temperature=1.0,
            max_tokens=length,
        )
        metrics, skipped = update(self.engine, batches, algorithm, self.budget(groups))
        assert not skipped, skipped
        return metrics["loss"]

    def budget(self, groups: Sequence[Group]) -> int:
        """Tokens per micro-batch."""
        if self.case.our_groups is None:
            return UPDATE.max_tokens_per_micro_batch
        return self.case.our_groups * max(
            len(g.rollouts[0].rows[0].prompt.ids) + sum(r.tokens for r in g.rollouts)
            for g in groups
        )

    def requests(self, step: int) -> list[Request]:
        samples = [make_sample(item) for item in self.questions(step)]
        return [
            Request(
                id=s.id,
                prompt=self.policy.chat.render(s.messages, s.images),
                seeds=tuple(seed_from(step, s.id, g) for g in range(self.case.group)),
            )
            for s in samples
        ]


def make_sample(item: Question) -> Sample:
    images = () if item.image is None else (item.image,)
    return Sample(
        id=str(item.number),
        messages=(Message(role="user", content=(*[IMAGE for _ in images], item.text)),),
        images=images,
    )


def ban(policy: Policy, ids: Iterable[int]) -> None:
    """Give these tokens no probability. TRL bans none in log-probs, hence none is banned where gradients are compared."""
    policy.chat.banned_ids = frozenset(ids)
    policy.__dict__.pop("banned", None)


def serve(job: Job, meter: Meter) -> None:
    """Run turns until there are no more; the first one is the gate's."""
    ours = VlrftSide(job)
    if job.case.quantity == "rollout":
        _serve_rollouts(ours, job, meter)
    ban(ours.policy, ())
    _update_for_gate(ours, job, meter)
    if job.case.quantity == "step":
        ban(ours.policy, ours.control_ids)
    for step in range(1, job.steps):
        if job.case.quantity == "step":
            samples = [make_sample(item) for item in ours.questions(step)]
            meter.wait()
            ours.update(ours.sample_groups(samples, step))
        else:
            groups = ours.recorded_groups(step)
            meter.wait()
            ours.update(groups)
        meter.stop()
    meter.wait()


def _update_for_gate(ours: VlrftSide, job: Job, meter: Meter) -> None:
    """Make the first update, of recorded completions in every case, and save its gradient."""
    groups = ours.recorded_groups(0)
    recording = RecordingObjective(ALGORITHM.objective)
    gradient: dict[str, Tensor] = {}

    def keep(*_: Any) -> None:
        named = ours.policy.model.named_parameters()
        gradient.update({n: p.grad.clone() for n, p in named if p.grad is not None})

    hook = ours.engine.optimizer.register_step_pre_hook(keep)
    meter.wait()
    loss = ours.update(groups, replace(ALGORITHM, objective=recording))
    meter.stop()
    hook.remove()
    gate = Gate(
        loss=loss,
        weighted=recording.sum,
        size=recording.size,
        prompt_tokens=max(len(g.rollouts[0].rows[0].prompt.ids) for g in groups),
        gradient=gradient,
    )
    meter.note({"gate": gate.save(job.scratch / "vlrft.safetensors")})


def _serve_rollouts(ours: VlrftSide, job: Job, meter: Meter) -> None:
    ban(ours.policy, ours.control_ids)
    sampling = Sampling(max_tokens=job.case.length)
    for step in range(job.steps):
        requests = ours.requests(step)
        settings = sampling if step else replace(sampling, temperature=0.0)
        meter.wait()
        pieces = ours.rollout.generate(requests, settings)
        meter.stop()
        assert all(len(p.ids) == job.case.length for group in pieces for p in group)
        if step == 0:
            ids = torch.tensor([p.ids for group in pieces for p in group])
            length = max(len(r.prompt.ids) for r in requests)
            gate = Gate(prompt_tokens=length, gradient={"ids": ids})
            meter.note({"gate": gate.save(job.scratch / "vlrft.safetensors")})
    meter.wait()
