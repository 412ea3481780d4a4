"""TRL's side of vs_trl.py: `GRPOTrainer.train`, with recorded completions in place of sampled ones where a case says so.

Settings, chosen to be TRL's fastest that compute the same: SETTINGS below, and
- `trl_rows` completions a micro-batch, the fastest of 1, 4, 16 (P6 and P6r: a group, as on our side);
- `trl_head`: off GPUs TRL 1.16 runs the language-model head over prompts too and throws that away. `completions` spares
  it this, as its GPU path does; `released` leaves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from benchmarks.vs_trl.cases import Case, Job
from benchmarks.vs_trl.data import Question, ordinary_tokens, question, variety
from benchmarks.vs_trl.gate import Gate
from benchmarks.vs_trl.meter import Meter
from benchmarks.vs_trl.trl_processor import processor
from vlrft.vision.processor import load_image_processor, prepare_torchvision

prepare_torchvision()
GRPOTrainer: Any = import_module("trl").GRPOTrainer
TrainerCallback: Any = import_module("transformers").TrainerCallback

SETTINGS: dict[str, Any] = {
    "loss_type": "dr_grpo",  # with the next: A = r − mean, summed over tokens, / (rows · max_completion_length)
    "scale_rewards": "none",
    "beta": 0.0,  # no reference model
    "num_iterations": 1,  # no pass for old log-probs
    "gradient_checkpointing": False,
    "bf16": False,
    "use_cpu": True,
    "optim": "adamw_torch_fused",
    "learning_rate": 1e-6,
    "lr_scheduler_type": "constant",
    "max_grad_norm": 1.0,
    "temperature": 1.0,
    "shuffle_dataset": False,
    "logging_steps": 10**6,
    "report_to": [],
    "save_strategy": "no",
    "disable_tqdm": True,
}
ATTENTION = "sdpa"


class Trainer(GRPOTrainer):  # type: ignore[misc]
    """Measures a step, or a part of it, in its turn."""

    def __init__(self, *, job: Job, meter: Meter, questions: Sequence[Question], **given: Any) -> None:  # fmt: skip
        self.job, self.case, self.meter = job, job.case, meter
        self.questions = questions
        self.numbers: list[int] = []  # of the questions of the step's rows
        self.weighted = self.size = self.loss = 0.0
        super().__init__(**given)

    @property
    def replays(self) -> bool:
        """The gate's step is of recorded completions in every case."""
        return self.case.measure != "step" or self.state.global_step == 0

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self.numbers = [row["number"] for row in inputs]
        found: dict[str, Any] = super()._generate_and_score_completions(inputs)
        self.length = found["prompt_ids"].shape[1]
        if self.case.measure != "step":
            self.meter.start()
        return found

    def _generate_single_turn(self, *given: Any, **named: Any) -> tuple[Any, Any]:
        if self.replays:
            rows = enumerate(self.numbers)
            return [list(self.questions[n].completions[i % self.case.group]) for i, n in rows], None
        ids, logprobs = super()._generate_single_turn(*given, **named)
        assert all(len(own) == self.case.length for own in ids)
        return ids, logprobs

    def _get_per_token_logps_and_entropies(self, *given: Any, **named: Any) -> Any:
        found = super()._get_per_token_logps_and_entropies(*given, **named)
        self.latest: Tensor = found[0].detach()
        return found

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        loss: Tensor = super()._compute_loss(model, inputs)
        if self.state.global_step == 0:
            self.loss += float(loss.detach())
            weights = inputs["advantages"][:, None] * inputs["completion_mask"]
            self.weighted += float((self.latest * weights).sum())
            self.size += float((self.latest * weights).abs().sum())
        return loss

    def reward(self, completions: Sequence[Any], number: Sequence[int], **_: Any) -> list[float]:
        if self.replays:
            rows = enumerate(number)
            return [self.questions[n].rewards[i % self.case.group] for i, n in rows]
        return [variety(completion[0]["content"]) for completion in completions]


class Turns(TrainerCallback):  # type: ignore[misc]
    """Lets the trainer's steps be turns of the meter."""

    trainer: Trainer

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.trainer.meter.wait()

    def on_pre_optimizer_step(self, args: Any, state: Any, *_: Any, model: Any, **__: Any) -> None:
        if state.global_step == 0:
            named = model.named_parameters()
            self.kept = {n: p.grad.clone() for n, p in named if p.grad is not None}

    def on_step_end(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        own = self.trainer
        own.meter.stop()
        if state.global_step == 1:
            gate = Gate(
                loss=own.loss,
                weighted=own.weighted,
                size=own.size,
                prompt_tokens=own.length,
                gradient=self.kept,
            )
            own.meter.note({"gate": gate.save(own.job.scratch / "trl.safetensors")})
            del self.kept


class Roller(Trainer):
    """Measures `_generate_single_turn`, which gets token ids and pixels and gives ids; nothing is trained."""

    def _generate_single_turn(self, *given: Any, **named: Any) -> tuple[Any, Any]:
        self.meter.wait()
        ids, logprobs = GRPOTrainer._generate_single_turn(self, *given, **named)
        self.meter.stop()
        assert all(len(own) == self.case.length for own in ids)
        self.ids = ids
        return ids, logprobs

    def roll(self, steps: int) -> None:
        """Turns until there are no more; the first is greedy, for the gate."""
        rows, size = list(self.train_dataset), self.case.prompts
        for step in range(steps):
            self.generation_config.do_sample = step > 0
            own = [row for row in rows[step * size :][:size] for _ in range(self.case.group)]
            self._generate_and_score_completions(own)
            if step == 0:
                gate = Gate(prompt_tokens=self.length, gradient={"ids": torch.tensor(self.ids)})
                self.meter.note({"gate": gate.save(self.job.scratch / "trl.safetensors")})
        self.meter.wait()


def dataset(questions: Sequence[Question]) -> Any:
    from datasets import Dataset

    rows: list[dict[str, Any]] = []
    for found in questions:
        prompt = [{"role": "user", "content": found.text}]
        image = {} if found.image is None else {"image": found.image}
        rows.append({"prompt": prompt, "number": found.number, **image})
    return Dataset.from_list(rows)


def config(case: Case, job: Job, banned: list[int]) -> Any:
    from trl import GRPOConfig

    return GRPOConfig(
        output_dir=str(job.scratch / "trl"),
        per_device_train_batch_size=case.trl_rows,
        gradient_accumulation_steps=case.rows // case.trl_rows,
        num_generations=case.group,
        max_completion_length=case.length,
        max_steps=job.steps,
        generation_kwargs={"min_new_tokens": case.length, "suppress_tokens": banned},
        model_init_kwargs={"dtype": "float32", "attn_implementation": ATTENTION},
        **SETTINGS,
    )


def serve(job: Job, meter: Meter) -> None:
    """Turns until there are no more: the first is the gate's."""
    from vlrft.config import PolicyConfig
    from vlrft.policy.load import load_policy

    if job.case.trl_head == "completions":
        utils: Any = import_module("trl.trainer.utils")
        utils._use_triton = lambda device: True
    chat = load_policy(PolicyConfig(model=str(job.folder), dtype="float32")).chat
    find = partial(question, job.case, ordinary=ordinary_tokens(chat.tokenizer))
    questions = [find(n) for n in range(job.steps * job.case.prompts)]
    turns, rewarded = Turns(), list[Trainer]()

    def reward(completions: Sequence[Any], **given: Any) -> list[float]:
        return rewarded[0].reward(completions, **given)

    kind = Roller if job.case.measure == "rollout" else Trainer
    trainer = kind(
        job=job,
        meter=meter,
        questions=questions,
        model=str(job.folder),
        reward_funcs=reward,
        args=config(job.case, job, sorted(chat.banned_ids | chat.end_ids)),
        train_dataset=dataset(questions),
        processing_class=processor(load_image_processor(str(job.folder)), chat.tokenizer) if job.case.side else chat.tokenizer,
        callbacks=[turns],
    )  # fmt: skip
    turns.trainer = trainer
    rewarded.append(trainer)
    if isinstance(trainer, Roller):
        trainer.roll(job.steps)
    trainer.train()
    meter.wait()
