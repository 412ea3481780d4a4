"""The trainer's part of a checkpoint: captures a run's state as tensors and JSON values, and restores it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from vlrft.distributed.ranks import Ranks
from vlrft.policy.policy import Policy
from vlrft.rollout.seeds import seed_from
from vlrft.selection.prompt_state import PromptStates
from vlrft.trainer.checkpoint_files import STORED, TrainerState
from vlrft.trainer.stage import Stage


def capture_state(
    *,
    step: int,
    score: float | None,
    policy: Policy,
    reference: Policy | None,
    optimiser: tuple[Mapping[str, Tensor], Mapping[str, float]],
    stages: Sequence[Stage],
    prompt_states: PromptStates,
    stored: Mapping[str, str],
) -> TrainerState:
    """The state after a step: weights, optimiser (tensors and counters), reference, prompts, stored rollouts and random
    generators. `stored`: the trained weights that are in the checkpoint's model already, as `Policy.save` returns them."""
    moments, counters = optimiser
    tensors = {f"optimizer/{k}": v for k, v in moments.items()}
    trained = policy.trained_weights()
    tensors |= {f"weights/{k}": v for k, v in trained.items() if k not in stored}
    if reference is not None:
        tensors |= {f"reference/{k}": v for k, v in reference.exact_weights().items()}
    tensors["torch_generator"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["cuda_generator"] = torch.cuda.get_rng_state()
    replay = {s.settings.name: s.replay for s in stages}
    values = {
        "step": step,
        "score": score,
        STORED: {f"weights/{name}": key for name, key in stored.items()},
        "optimizer": counters,
        "prompts": {s.settings.name: s.prompts_state for s in stages},
        "prompt_states": prompt_states.state_dict(),
        "replay": {name: r.state_dict() for name, r in replay.items() if r is not None},
    }
    return TrainerState(tensors=tensors, values=values)


def restore_state(
    state: TrainerState,
    *,
    policy: Policy,
    stages: Sequence[Stage],
    prompt_states: PromptStates,
    ranks: Ranks,
    seed: int,
) -> None:
    """Restores weights, prompts, stored rollouts and generators; a stage restores its optimiser and its reference when it
    starts. The first rank continues with the stored generators, each other rank with a different seed."""
    policy.load_weights(state.under("weights"))
    for stage in stages:
        name = stage.settings.name
        stage.prompts.load_state_dict(state.values["prompts"][name])
        if stage.replay is not None:
            stage.replay.load_state_dict(state.values["replay"][name])
    prompt_states.load_state_dict(state.values["prompt_states"])
    if ranks.first:
        torch.set_rng_state(state.tensors["torch_generator"])
        if torch.cuda.is_available() and "cuda_generator" in state.tensors:
            torch.cuda.set_rng_state(state.tensors["cuda_generator"])
    else:
        torch.manual_seed(seed_from(seed, ranks.rank, state.values["step"]))
