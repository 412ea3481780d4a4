"""The gate of vs_trl.py: both sides must have done the same work, or a figure is void."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

BOUND = 1e-5  # relative, float32


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What a side shows of its first step: the gradient of an update, or the ids of a greedy rollout."""

    prompt_tokens: int
    gradient: dict[str, Tensor]
    loss: float = 0.0
    weighted: float = 0.0  # Σ A log π over the step's action tokens
    size: float = 1.0  # Σ |A log π|, which that is a small remainder of

    def save(self, path: Path) -> dict[str, Any]:
        """Writes the tensors; what is left to tell."""
        save_file({n: t.detach().contiguous() for n, t in self.gradient.items()}, path)
        return {
            "path": str(path),
            "loss": self.loss,
            "weighted": self.weighted,
            "size": self.size,
            "prompt_tokens": self.prompt_tokens,
        }


@dataclass
class Verdict:
    """Differences between the sides, and what is wrong with them; `mistakes` empty: the gate is passed."""

    figures: dict[str, Any] = field(default_factory=dict[str, Any])
    mistakes: list[str] = field(default_factory=list[str])

    def hold(self, name: str, value: float, bound: float) -> None:
        self.figures[name] = value
        if not value <= bound:
            self.mistakes.append(f"{name} {value:.2g} > {bound:g}")


def compare(ours: dict[str, Any], theirs: dict[str, Any]) -> Verdict:
    """Of two `Gate.save`s."""
    verdict = Verdict(figures={"prompt_tokens": ours["prompt_tokens"]})
    if ours["prompt_tokens"] != theirs["prompt_tokens"]:
        verdict.mistakes.append(f"prompts of {ours['prompt_tokens']} and {theirs['prompt_tokens']}")
    own, other = load_file(ours["path"]), load_file(theirs["path"])
    if own.keys() != other.keys():
        verdict.mistakes.append(f"only one side has {sorted(own.keys() ^ other.keys())[:3]}")
        return verdict
    if "ids" in own:
        equal = own["ids"].shape == other["ids"].shape and torch.equal(own["ids"], other["ids"])
        verdict.figures["greedy_ids_equal"] = equal
        if not equal:
            verdict.mistakes.append("greedy rollouts differ")
        return verdict
    verdict.hold("loss_gap", abs(ours["loss"] - theirs["loss"]), BOUND)
    gap = abs(ours["weighted"] - theirs["weighted"]) / theirs["size"]
    verdict.hold("weighted_logprob_gap", gap, BOUND)
    gaps = {n: float((own[n] - other[n]).norm() / other[n].norm()) for n in own}
    worst = max(gaps, key=lambda n: gaps[n])
    verdict.hold("gradient_gap", gaps[worst], BOUND)
    verdict.figures |= {"worst_parameter": worst, "parameters": len(gaps)}
    whole = [torch.cat([t.flatten() for t in side.values()]) for side in (own, other)]
    verdict.figures["whole_gradient_gap"] = float((whole[0] - whole[1]).norm() / whole[1].norm())
    return verdict
