"""Which methods and which settings TRL's trainer can honour together with our loss; what cannot be is refused."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from vlrft.algorithms import Algorithm

# Of TRL's own loss, which is not computed: set, they would do nothing, silently.
LOSS_SETTINGS = (
    *("beta", "delta", "entropy_coef", "epsilon", "epsilon_high", "importance_sampling_level"),
    *("loss_type", "mask_truncated_completions", "multi_objective_aggregation"),
    *("off_policy_mask_threshold", "scale_rewards", "top_entropy_quantile"),
    *("use_adaptive_entropy", "use_bias_correction_kl"),
)


def refusals(algorithm: Algorithm, args: Any) -> list[str]:
    """A line for each thing that cannot be honoured. `args`: a `GRPOConfig`."""
    return [*_of_method(algorithm), *_of_settings(algorithm, args)]


def _of_method(algorithm: Algorithm) -> list[str]:
    name, told = algorithm.name, list[str]()
    if algorithm.estimator.greedy:
        told.append(
            f"algorithm {name}: needs a greedy answer a prompt, which TRL does not sample; try rloo"
        )
    if algorithm.answers == "gold":
        told.append(f"algorithm {name}: learns from gold answers; that is TRL's SFTTrainer")
    if algorithm.replay is not None:
        told.append("algorithm.replay: TRL keeps no answers of earlier policies; leave it out")
    if algorithm.reference.update != "never":
        told.append("algorithm.reference.update: TRL moves the reference; use sync_ref_model")
    return told


def _of_settings(algorithm: Algorithm, args: Any) -> list[str]:
    told: list[str] = []
    usual = {f.name: f.default for f in fields(args)}
    for name in LOSS_SETTINGS:
        if name in usual and getattr(args, name) != usual[name]:
            told.append(
                f"{name}: belongs to TRL's loss and would do nothing; say it in `algorithm`"
            )
    if args.steps_per_generation != args.gradient_accumulation_steps:
        told.append(
            f"steps_per_generation: {args.steps_per_generation}; an optimiser step is one generation batch, so "
            f"gradient_accumulation_steps ({args.gradient_accumulation_steps}); for more updates: num_iterations"
        )
    if args.use_vllm and args.vllm_importance_sampling_correction:
        told.append(
            "vllm_importance_sampling_correction: belongs to TRL's loss; set it to False, and "
            "regularize: {correction: token} in `algorithm`"
        )
    if algorithm.reduction == "constant" and not args.max_completion_length:
        told.append("max_completion_length: the reduction `constant` divides by it")
    return told
