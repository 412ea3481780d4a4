"""The names of other toolkits for the keys of a config, for the suggestions of error messages. None of them is accepted.

From the settings of TRL (`GRPOConfig`, `ModelConfig`), verl (`actor_rollout_ref.…`), EasyR1 (`worker.…`), peft and
transformers. A name is listed only if our key means the same; where it is counted in another unit, the line says so.
"""

from __future__ import annotations

from collections.abc import Mapping

FOREIGN_NAMES: Mapping[str, str] = {
    # the update
    "learning_rate": "update.lr",
    "optim.lr": "update.lr",
    "lr_scheduler_type": "update.schedule",
    "lr_scheduler": "update.schedule",
    "warmup_style": "update.schedule",
    "lr_warmup_steps": "update.warmup_steps",
    "warmup_ratio": "update.warmup_steps (in steps)",
    "lr_warmup_ratio": "update.warmup_steps (in steps)",
    "lr_warmup_steps_ratio": "update.warmup_steps (in steps)",
    "adam_beta1": "update.betas",
    "adam_beta2": "update.betas",
    "adam_epsilon": "update.eps",
    "grad_clip": "update.max_grad_norm",
    "clip_grad": "update.max_grad_norm",
    "steps_per_generation": "update.updates_per_batch (in optimiser steps)",
    "ppo_mini_batch_size": "update.updates_per_batch (how many of them a batch has)",
    "global_batch_size": "update.updates_per_batch (how many of them a batch has)",
    "gradient_accumulation_steps": "update.max_tokens_per_micro_batch (in tokens; results do not depend on it)",
    "micro_batch_size": "update.max_tokens_per_micro_batch (in tokens; results do not depend on it)",
    "ppo_micro_batch_size_per_gpu": "update.max_tokens_per_micro_batch (in tokens; results do not depend on it)",
    "micro_batch_size_per_device_for_update": "update.max_tokens_per_micro_batch (in tokens; results do not depend on it)",
    "ppo_max_token_len_per_gpu": "update.max_tokens_per_micro_batch",
    # the steps of a stage
    "batch_size": "stages.0.prompts_per_step",
    "train_batch_size": "stages.0.prompts_per_step",
    "per_device_train_batch_size": "stages.0.prompts_per_step (in prompts, of all devices)",
    "rollout_batch_size": "stages.0.prompts_per_step",
    "generation_batch_size": "stages.0.prompts_per_step (in prompts)",
    "num_train_epochs": "stages.0.epochs",
    "total_epochs": "stages.0.epochs",
    "num_epochs": "stages.0.epochs",
    "max_steps": "stages.0.steps",
    "total_training_steps": "stages.0.steps",
    # sampling
    "num_generations": "rollout.group_size",
    "num_return_sequences": "rollout.group_size",
    "num_samples_per_prompt": "rollout.group_size",
    "n_samples_per_prompt": "rollout.group_size",
    "rollout.n": "rollout.group_size",
    "max_completion_length": "rollout.max_tokens",
    "max_response_length": "rollout.max_tokens",
    "response_length": "rollout.max_tokens",
    "max_new_tokens": "rollout.max_tokens",
    "max_prompt_length": "rollout.max_prompt_tokens",
    "prompt_length": "rollout.max_prompt_tokens",
    "rollout.temperature": "rollout.temperature",
    "rollout.top_p": "rollout.top_p",
    "rollout.top_k": "rollout.top_k",
    "rollout.name": "rollout.engine",
    "use_vllm": "rollout.engine",
    # the algorithm
    "regularize.correction": "algorithm.correction",
    "regularize.correction_cap": "algorithm.correction.cap",
    "vllm_importance_sampling_correction": "algorithm.correction",
    "vllm_importance_sampling_cap": "algorithm.correction.cap",
    "rollout_is": "algorithm.correction.level",
    "rollout_is_threshold": "algorithm.correction.cap",
    "tis_imp_ratio_cap": "algorithm.correction.cap",
    "beta": "algorithm.regularize.kl",
    "kl_coef": "algorithm.regularize.kl",
    "kl_loss_coef": "algorithm.regularize.kl",
    "use_kl_loss": "algorithm.regularize.kl",
    "kl_penalty": "algorithm.regularize.kl_estimator",
    "kl_loss_type": "algorithm.regularize.kl_estimator",
    "entropy_coeff": "algorithm.regularize.entropy",
    "entropy_coef": "algorithm.regularize.entropy",
    "epsilon": "algorithm.objective.clip_low",
    "epsilon_low": "algorithm.objective.clip_low",
    "epsilon_high": "algorithm.objective.clip_high",
    "clip_ratio": "algorithm.objective.clip_low",
    "cliprange": "algorithm.objective.clip_low",
    "clip_ratio_low": "algorithm.objective.clip_low",
    "clip_ratio_high": "algorithm.objective.clip_high",
    "clip_ratio_c": "algorithm.objective.dual_clip",
    "clip_ratio_dual": "algorithm.objective.dual_clip",
    "delta": "algorithm.objective.dual_clip",
    "adv_estimator": "algorithm.advantage",
    "scale_rewards": "algorithm.advantage",
    "loss_agg_mode": "algorithm.reduction",
    "filter_groups": "algorithm.keep",
    "online_filtering": "algorithm.keep",
    "sync_ref_model": "algorithm.reference.update",
    "ref_model_sync_steps": "algorithm.reference.every",
    "ref_model_mixup_alpha": "algorithm.reference.decay (1 − alpha)",
    "loss_type": "algorithm",
    # the policy
    "model_name_or_path": "policy.model",
    "model_path": "policy.model",
    "model.path": "policy.model",
    "torch_dtype": "policy.dtype",
    "bf16": "policy.dtype",
    "attn_implementation": "policy.attention",
    "gradient_checkpointing": "policy.activation_checkpointing",
    "enable_gradient_checkpointing": "policy.activation_checkpointing",
    "freeze_vision_tower": "policy.freeze",
    "freeze_vision_modules": "policy.freeze",
    "use_peft": "policy.lora",
    "lora.r": "policy.lora.rank",
    "lora_r": "policy.lora.rank",
    "lora_rank": "policy.lora.rank",
    "lora_alpha": "policy.lora.alpha",
    "lora_dropout": "policy.lora.dropout",
    "lora_target_modules": "policy.lora.target_modules",
    "target_modules": "policy.lora.target_modules",
    "image_max_pixels": "policy.max_pixels",
    "image_min_pixels": "policy.min_pixels",
    # data and rewards
    "dataset_name": "task.options.data",
    "dataset": "task.options.data",
    "train_files": "task.options.data",
    "reward_funcs": "task.rewards",
    "reward_weights": "task.rewards",
    "reward_function": "task.rewards",
    "reward_fn": "task.rewards",
    # around the run
    "save_steps": "save.every",
    "save_freq": "save.every",
    "save_total_limit": "save.keep_last",
    "save_limit": "save.keep_last",
    "eval_steps": "eval.every",
    "test_freq": "eval.every",
    "val_freq": "eval.every",
    "report_to": "log.trackers",
    "trainer.logger": "log.trackers",
    "log_completions": "log.groups_per_step",
    "dataloader_num_workers": "prefetch_threads",
    "deepspeed": "engine",
}
"""A name, or the last keys of a dotted path, in lower case -> the key of a config, and its unit where that differs. A
stage's key is that of stage 0."""

OPTIONS: Mapping[str, str] = {
    "output_dir": "--out DIR",
    "default_local_dir": "--out DIR",
    "save_checkpoint_path": "--out DIR",
    "resume_from_checkpoint": "--resume",
    "resume_mode": "--resume",
    "overwrite_output_dir": "--overwrite",
    "nproc_per_node": "vlrft launch --ranks N",
    "n_gpus_per_node": "vlrft launch --ranks N",
}
"""Settings that are options of the command line, not keys of a config."""


def key_of_foreign(path: str, *, least: int = 1) -> str | None:
    """Our key for a dotted path of another toolkit, by its last keys, the longest that are known, `least` of them or more.

    >>> key_of_foreign("actor_rollout_ref.rollout.n")
    'rollout.group_size'
    """
    return _find(FOREIGN_NAMES, path, least)


def option_of_foreign(path: str) -> str | None:
    """The option of our command line for such a path."""
    return _find(OPTIONS, path, 1)


def _find(table: Mapping[str, str], path: str, least: int) -> str | None:
    parts = path.lower().replace("-", "_").split(".")
    for count in range(len(parts), least - 1, -1):
        found = table.get(".".join(parts[-count:]))
        if found is not None:
            return found
    return None
