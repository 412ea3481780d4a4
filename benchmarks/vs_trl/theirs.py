"""TRL's side: `GRPOTrainer.train`, with recorded instead of sampled completions where a case needs them.

The settings are the fastest of TRL that compute the same: SETTINGS below, and
- `trl_rows` completions per micro-batch, the fastest of 1, 4, 16 (P6 and P6r: a group, as on vlrft's side);
- `trl_head`: off GPUs TRL 1.16 also runs the language-model head over prompts and discards the result. `completions`
  avoids this, as its GPU path does; `released` does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from benchmarks.vs_trl.cases import Case, Job
from benchmarks.vs_trl.data import Question, count_text_ids, question, variety
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
VLLM = {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.3}


class Trainer(GRPOTrainer):  # type: ignore[misc]
    """A GRPOTrainer whose steps, or a part of each, are measured."""

    def __init__(self, *, job: Job, meter: Meter, questions: Sequence[Question], **settings: Any) -> None:  # fmt: skip
        self.job, self.case, self.meter = job, job.case, meter
        self.questions = questions
        self.numbers: list[int] = []  # question of each of the step's rows
        self.weighted = self.size = self.loss = 0.0
        super().__init__(**settings)

    @property
    def replays(self) -> bool:
        """Whether the step uses recorded completions; the gate's step does in every case."""
        return self.case.quantity != "step" or self.state.global_step == 0

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self.numbers = [row["number"] for row in inputs]
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        self.length = batch["prompt_ids"].shape[1]
        if self.case.quantity != "step":
            self.meter.start()
        return batch

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        if self.replays:
            rows = enumerate(self.numbers)
            return [list(self.questions[n].completions[i % self.case.group]) for i, n in rows], None
        ids, logprobs = super()._generate_single_turn(*args, **kwargs)
        assert all(len(row) == self.case.length for row in ids)
        return ids, logprobs

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        result = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        self.latest: Tensor = result[0].detach()
        return result

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


class StepCallback(TrainerCallback):  # type: ignore[misc]
    """Makes each of the trainer's steps a turn of the meter, and sends the gate after the first one."""

    trainer: Trainer

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.trainer.meter.wait()

    def on_pre_optimizer_step(self, args: Any, state: Any, *_: Any, model: Any, **__: Any) -> None:
        if state.global_step == 0:
            named = model.named_parameters()
            self.gradient = {n: p.grad.clone() for n, p in named if p.grad is not None}

    def on_step_end(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        trainer = self.trainer
        trainer.meter.stop()
        if state.global_step == 1:
            gate = Gate(
                loss=trainer.loss,
                weighted=trainer.weighted,
                size=trainer.size,
                prompt_tokens=trainer.length,
                gradient=self.gradient,
            )
            trainer.meter.note({"gate": gate.save(trainer.job.scratch / "trl.safetensors")})
            del self.gradient


class RolloutTrainer(Trainer):
    """Measures `_generate_single_turn`, which maps token ids and pixels to ids; trains nothing."""

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        self.meter.wait()
        ids, logprobs = GRPOTrainer._generate_single_turn(self, *args, **kwargs)
        self.meter.stop()
        assert all(len(row) == self.case.length for row in ids)
        self.ids = ids
        return ids, logprobs

    def generate_steps(self, steps: int) -> None:
        """Run turns until there are no more; the first one is greedy, for the gate."""
        rows, size = list(self.train_dataset), self.case.prompts
        for step in range(steps):
            self.generation_config.do_sample = step > 0
            inputs = [row for row in rows[step * size :][:size] for _ in range(self.case.group)]
            self._generate_and_score_completions(inputs)
            if step == 0:
                gate = Gate(prompt_tokens=self.length, gradient={"ids": torch.tensor(self.ids)})
                self.meter.note({"gate": gate.save(self.job.scratch / "trl.safetensors")})
        self.meter.wait()


def dataset(questions: Sequence[Question]) -> Any:
    from datasets import Dataset

    rows: list[dict[str, Any]] = []
    for item in questions:
        prompt = [{"role": "user", "content": item.text}]
        image = {} if item.image is None else {"image": item.image}
        rows.append({"prompt": prompt, "number": item.number, **image})
    return Dataset.from_list(rows)


def config(case: Case, job: Job, banned: list[int]) -> Any:
    from trl import GRPOConfig

    rollouts: dict[str, Any] = {
        "generation_kwargs": {"min_new_tokens": case.length, "suppress_tokens": banned}
    }
    if job.vllm:  # which knows no banned tokens, and another name for the least length
        rollouts = {"generation_kwargs": {"min_tokens": case.length}, **VLLM}
    return GRPOConfig(
        output_dir=str(job.scratch / "trl"),
        per_device_train_batch_size=case.trl_rows,
        gradient_accumulation_steps=case.rows // case.trl_rows,
        num_generations=case.group,
        max_completion_length=case.length,
        max_steps=job.steps,
        model_init_kwargs={"dtype": "float32", "attn_implementation": ATTENTION},
        **rollouts,
        **{**SETTINGS, "use_cpu": job.device == "cpu"},
    )


def serve(job: Job, meter: Meter) -> None:
    """Run turns until there are no more; the first one is the gate's."""
    from vlrft.config import PolicyConfig
    from vlrft.policy.load import load_policy

    if job.case.trl_head == "completions":
        utils: Any = import_module("trl.trainer.utils")
        utils._use_triton = lambda device: True
    chat = load_policy(PolicyConfig(model=str(job.folder), dtype="float32")).chat
    make_question = partial(question, job.case, text_ids=count_text_ids(chat.tokenizer))
    questions = [make_question(n) for n in range(job.steps * job.case.prompts)]
    callback, trainers = (
        StepCallback(),
        list[Trainer](),
    )  # the reward needs the trainer, whose constructor needs it

    def reward(completions: Sequence[Any], **kwargs: Any) -> list[float]:
        return trainers[0].reward(completions, **kwargs)

    trainer_class = RolloutTrainer if job.case.quantity == "rollout" else Trainer
    trainer = trainer_class(
        job=job,
        meter=meter,
        questions=questions,
        model=str(job.folder),
        reward_funcs=reward,
        args=config(job.case, job, sorted(chat.banned_ids | chat.end_ids)),
        train_dataset=dataset(questions),
        processing_class=processor(load_image_processor(str(job.folder)), chat.tokenizer) if job.case.side else chat.tokenizer,
        callbacks=[callback],
    )  # fmt: skip
    callback.trainer = trainer
    trainers.append(trainer)
    if isinstance(trainer, RolloutTrainer):
        trainer.generate_steps(job.steps)
    trainer.train()
    meter.wait()
