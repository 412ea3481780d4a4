"""What claims.py compares: the arms of each comparison, as overrides of the published bundles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Arm:
    name: str
    method: str
    overrides: Mapping[str, Any] = field(default_factory=dict[str, Any])
    updates: int = 1
    steps: int = 8  # of PROMPTS · GROUP rollouts each
    stored: float = 0.0  # share of a group's rollouts that are stored ones
    pool: int = 1000  # prompts to train on
    same_steps: bool = False  # `steps` counts updates' batches instead of rollouts


_OFF: dict[str, Any] = {"advantage": "centred", "objective": {"alpha": False}, "keep": "all"}
_NO_KL = {"regularize": {"kl": 0.0}}


def _gmpo(name: str, **objective: Any) -> Arm:
    return Arm(name=name, method="gmpo", overrides={"objective": objective}, updates=8)


def _gvpo(name: str, stored: float = 0.0, **objective: Any) -> Arm:
    changed = {"objective": objective}
    return Arm(name=name, method="gvpo", overrides=changed, updates=4, stored=stored, pool=24)


COMPARISONS: dict[str, list[Arm]] = {
    "gpg": [
        Arm(name="A", method="gpg", overrides=_OFF | {"advantage": "standardised"}, steps=30),
        Arm(name="B", method="gpg", overrides=_OFF, steps=30),
        Arm(name="C", method="gpg", overrides={"keep": "all"}, steps=30),
        Arm(name="D", method="gpg", steps=30),
        Arm(name="D_steps", method="gpg", steps=30, same_steps=True),
    ],
    "gmpo": [
        Arm(name="grpo, clip 0.2, no KL", method="grpo", overrides=_NO_KL, updates=8),
        _gmpo("gmpo, clip 0.2", clip_low=0.2, clip_high=0.2),
        _gmpo("gmpo, clip 0.4"),
        _gmpo("gmpo, no clip", clip="none"),
    ],
    "cw": [
        Arm(name="grpo", method="grpo", updates=4, steps=12),
        Arm(name="cw_grpo", method="cw_grpo", updates=4, steps=12),
    ],
    "gvpo": [
        _gvpo("full, β 0.1"),
        _gvpo("without Var", var=False),
        _gvpo("without Cov", cov=False),
        _gvpo("without both", var=False, cov=False),
        _gvpo("25 % stored", 0.25),
        _gvpo("50 % stored", 0.5),
        _gvpo("75 % stored", 0.75),
        _gvpo("β 0.03", beta=0.03),
        _gvpo("β 0.3", beta=0.3),
    ],
}
