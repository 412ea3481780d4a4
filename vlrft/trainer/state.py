"""What of a run a checkpoint holds besides the model folder, and a run that goes on from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vlrft.policy.policy import Policy
from vlrft.rollout.play import seed_from
from vlrft.trainer.checkpoint import TrainerState

if TYPE_CHECKING:
    from vlrft.trainer.run import Run


def taken(
    run: Run, reference: Policy | None, moments: Mapping[str, Tensor], counters: Mapping[str, float]
) -> TrainerState:
    """Weights, optimiser, reference, prompts and generators of the present step."""
    tensors = {f"optimizer/{k}": v for k, v in moments.items()}
    tensors |= {f"weights/{k}": v for k, v in run.policy.trained().items()}
    if reference is not None:
        tensors |= {f"reference/{k}": v for k, v in reference.trained().items()}
    tensors["torch_generator"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["cuda_generator"] = torch.cuda.get_rng_state()
    values = {
        "step": run.step,
        "score": run.score,
        "optimizer": counters,
        "prompts": {s.name: s.prompts.state_dict() for s in run.stages},
        "prompt_states": run.states.state_dict(),
        "replay": {s.name: s.replay.state_dict() for s in run.stages if s.replay is not None},
    }
    return TrainerState(tensors=tensors, values=values)


def put_back(run: Run, state: TrainerState) -> None:
    """The run where `taken` found it; optimiser and reference follow when their stage starts. Ranks other than the first
    draw numbers of their own."""
    run.step = int(state.values["step"])
    run.score = state.values["score"]
    run.policy.load_weights(state.under("weights"))
    for stage in run.stages:
        stage.prompts.load_state_dict(state.values["prompts"][stage.name])
        if stage.replay is not None:
            stage.replay.load_state_dict(state.values["replay"][stage.name])
    run.states.load_state_dict(state.values["prompt_states"])
    if run.ranks.first:
        torch.set_rng_state(state.tensors["torch_generator"])
        if torch.cuda.is_available() and "cuda_generator" in state.tensors:
            torch.cuda.set_rng_state(state.tensors["cuda_generator"])
    else:
        torch.manual_seed(seed_from(run.config.seed, run.ranks.rank, run.step))
