"""The reference policy of a stage: made at its start, and moved after steps as the algorithm's rule says."""

from __future__ import annotations

from vlrft.engine import TrainEngine
from vlrft.policy.policy import Policy
from vlrft.trainer.checkpoint_files import TrainerState
from vlrft.trainer.stage_settings import StageSettings


def build_reference(
    settings: StageSettings, policy: Policy, resumed: TrainerState | None
) -> Policy | None:
    """None where the algorithm needs none: else the policy as it is at the stage's start (with LoRA: the model without
    adapters), or as stored in the checkpoint `resumed`. A moving average of half-precision weights is kept in float32, too."""
    if not settings.algorithm.needs.ref_logprobs:
        return None
    reference = policy.reference()
    if settings.algorithm.reference.update == "ema":
        reference.keep_float32_copies()
    if resumed is not None:
        reference.load_weights(resumed.under("reference"))
    return reference


def update_reference(
    settings: StageSettings, step: int, policy: Policy, engine: TrainEngine, reference: Policy
) -> None:
    """After a step, moves the reference towards the policy or replaces its weights, as the algorithm's rule says."""
    rule = settings.algorithm.reference
    if rule.update == "never":
        return
    if rule.update == "ema":
        with engine.unsharded():
            reference.move_towards(policy, 1 - rule.decay)
    elif (step - settings.first) % rule.every == 0:
        with engine.unsharded():
            reference.load_weights(policy.trained_weights())
        if rule.reset_optimizer:
            engine.reset_moments()
