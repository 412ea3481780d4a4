"""The gate: both sides must have computed the same, or a result is void."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

BOUND = 1e-5  # relative, float32
GPU_BOUND = 1e-4  # sums are in another order from one shape to the next


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The results of a side's first step to compare: the gradient of an update, or the ids of a greedy rollout."""

    prompt_tokens: int
    gradient: dict[str, Tensor]
    loss: float = 0.0
    weighted: float = 0.0  # Σ A log π over the step's action tokens
    size: float = 1.0  # Σ |A log π|, the scale of `weighted`, whose terms nearly cancel

    def save(self, path: Path) -> dict[str, Any]:
        """Write the tensors to `path`; return the other fields and the path."""
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
    """Differences between the sides, and those that are too large; the gate is passed when `mistakes` is empty."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    mistakes: list[str] = field(default_factory=list[str])

    def check(self, name: str, value: float, bound: float) -> None:
        self.values[name] = value
        if not value <= bound:
            self.mistakes.append(f"{name} {value:.2g} > {bound:g}")


def compare(ours: dict[str, Any], theirs: dict[str, Any], bound: float = BOUND) -> Verdict:
    """Compare the two sides' results of `Gate.save`."""
    verdict = Verdict(values={"prompt_tokens": ours["prompt_tokens"]})
    if ours["prompt_tokens"] != theirs["prompt_tokens"]:
        verdict.mistakes.append(f"prompts of {ours['prompt_tokens']} and {theirs['prompt_tokens']}")
    left, right = load_file(ours["path"]), load_file(theirs["path"])
    if left.keys() != right.keys():
        verdict.mistakes.append(f"only one side has {sorted(left.keys() ^ right.keys())[:3]}")
        return verdict
    if "ids" in left:
        equal = left["ids"].shape == right["ids"].shape and torch.equal(left["ids"], right["ids"])
        verdict.values["greedy_ids_equal"] = equal
        if not equal:
            verdict.mistakes.append("greedy rollouts differ")
        return verdict
    verdict.check("loss_gap", abs(ours["loss"] - theirs["loss"]), bound)
    gap = abs(ours["weighted"] - theirs["weighted"]) / theirs["size"]
    verdict.check("weighted_logprob_gap", gap, bound)
    gaps = {n: float((left[n] - right[n]).norm() / right[n].norm()) for n in left}
    worst = max(gaps, key=lambda n: gaps[n])
    verdict.check("gradient_gap", gaps[worst], bound)
    verdict.values |= {"worst_parameter": worst, "parameters": len(gaps)}
    whole = [torch.cat([t.flatten() for t in side.values()]) for side in (left, right)]
    verdict.values["whole_gradient_gap"] = float((whole[0] - whole[1]).norm() / whole[1].norm())
    return verdict
