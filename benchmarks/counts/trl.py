"""The same step by TRL's GRPOTrainer with its own loss, counted by the same hooks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.vs_trl.trl_processor import processor
from vlrft.config import BuildConfig, PolicyConfig, TaskConfig
from vlrft.policy.load import load_policy
from vlrft.rollout.task import load_task
from vlrft.testing.count_step import Options, SampledGroup, StepCase, StepCounts, load, make_config
from vlrft.testing.work_meter import Work, WorkMeter


def count_trl_step(case: StepCase, folder: Path) -> StepCounts:
    """Counts of one step on the case's groups in one micro-batch; every answer has the full length."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    settings = make_config(case)
    build = BuildConfig(**settings["policy"]["build"])
    corpus = load_task(TaskConfig(**settings["task"]), "train").text()
    policy = load_policy(PolicyConfig(build=build), corpus=corpus, seed=0)
    samples = load("train", Options(groups=case.groups, same=case.same))
    rows = [
        {
            "prompt": [{"role": "user", "content": sample.messages[0].content[1]}],
            "image": sample.images[0],
            "signal": sample.tags["signal"],
        }
        for sample in samples
    ]

    def alternate(completions: Sequence[Any], signal: Sequence[str], **_: Any) -> list[float]:
        return [float(i % 2 == 0 or s == "False") for i, s in enumerate(signal)]

    prompts: list[int] = []

    class Trainer(GRPOTrainer):  # type: ignore[misc]
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            with meter.during("rollout"):
                batch = super()._generate_and_score_completions(inputs)
            prompts.extend(batch["prompt_mask"].sum(1).tolist()[:: case.size])
            return batch

        def training_step(self, *args: Any, **kwargs: Any) -> Any:
            with meter.during("update"):
                return super().training_step(*args, **kwargs)

    meter = WorkMeter()
    total = len(rows) * case.size
    banned = sorted(policy.chat.banned_ids | policy.chat.end_ids)
    trainer = Trainer(
        model=policy.model,
        reward_funcs=alternate,
        args=GRPOConfig(
            output_dir=str(folder),
            per_device_train_batch_size=total,
            num_generations=case.size,
            max_completion_length=case.length,
            max_steps=1,
            beta=0.0,
            loss_type="dr_grpo",
            scale_rewards="none",
            generation_kwargs={"min_new_tokens": case.length, "suppress_tokens": banned},
            gradient_checkpointing=False,
            shuffle_dataset=False,
            logging_steps=1000,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=processor(policy.chat.image_processor, policy.chat.tokenizer),
    )
    meter.watch(policy.model, policy.chat.pad_id)
    with meter.count_calls(policy.chat.image_processor):
        trainer.train()
    groups = [SampledGroup(n, (case.length,) * case.size, s) for n, s in zip(prompts, case.groups, strict=True)]  # fmt: skip
    return StepCounts(rollout=meter.work["rollout"], update=meter.work.get("update", Work()), groups=tuple(groups))  # fmt: skip
