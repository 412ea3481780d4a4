"""The algorithms and settings that TRL's trainer cannot combine with our loss, and why."""

from __future__ import annotations

from typing import Any

from vlrft.algorithms import Algorithm
from vlrft.schema.changed_settings import changed_settings

# Settings of TRL's loss, which is not computed: they would silently do nothing.
LOSS_SETTINGS = (
    *("beta", "delta", "entropy_coef", "epsilon", "epsilon_high", "importance_sampling_level"),
    *("loss_type", "mask_truncated_completions", "multi_objective_aggregation"),
    *("off_policy_mask_threshold", "sapo_temperature_neg", "sapo_temperature_pos", "scale_rewards"),
    *("top_entropy_quantile", "use_adaptive_entropy", "use_bias_correction_kl"),
    *("vespo_k_neg", "vespo_k_pos", "vespo_lambda_neg", "vespo_lambda_pos"),
)


def refusals(algorithm: Algorithm, args: Any) -> list[str]:
    """A line for each setting that cannot be honoured. `args`: a `GRPOConfig`."""
    return [*_algorithm_refusals(algorithm), *_settings_refusals(algorithm, args)]


def _algorithm_refusals(algorithm: Algorithm) -> list[str]:
    name, lines = algorithm.name, list[str]()
    if algorithm.estimator.greedy:
        lines.append(
            f"algorithm {name}: needs a greedy answer per prompt, which TRL does not sample; try rloo"
        )
    if algorithm.answers != "sampled":
        lines.append(f"algorithm {name}: learns from gold answers; that is TRL's SFTTrainer")
    if algorithm.replay is not None:
        lines.append("algorithm.replay: TRL keeps no answers of earlier policies; leave it out")
    if algorithm.reference.update != "never":
        lines.append("algorithm.reference.update: TRL moves the reference; use sync_ref_model")
    return lines


def _settings_refusals(algorithm: Algorithm, args: Any) -> list[str]:
    lines: list[str] = []
    changed = changed_settings(args)
    for name in LOSS_SETTINGS:
        if name in changed:
            lines.append(
                f"{name}: belongs to TRL's loss and would do nothing; set it in `algorithm`"
            )
    if args.steps_per_generation != args.gradient_accumulation_steps:
        lines.append(
            f"steps_per_generation: {args.steps_per_generation}; an optimiser step is one generation batch: set it to "
            f"gradient_accumulation_steps ({args.gradient_accumulation_steps}); for more updates use num_iterations"
        )
    least, evaluated = algorithm.min_group, args.num_generations_eval
    if evaluated is not None and evaluated < least:
        lines.append(
            f"num_generations_eval: {evaluated}; algorithm {algorithm.name} compares at least {least} completions of a prompt"
        )
    if args.use_vllm and args.vllm_importance_sampling_correction:
        lines.append(
            "vllm_importance_sampling_correction: belongs to TRL's loss; set it to False and use "
            "correction: {level: token} in `algorithm`"
        )
    if algorithm.reduction == "constant" and not args.max_completion_length:
        lines.append("max_completion_length: the reduction `constant` divides by it")
    return lines
