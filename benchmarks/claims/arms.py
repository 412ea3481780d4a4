"""What claims.py compares: the arms of each comparison, as overrides of the published bundles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STEPS = 600


@dataclass(frozen=True, kw_only=True)
class Arm:
    name: str
    method: str
    overrides: Mapping[str, Any] = field(default_factory=dict[str, Any])
    slices: int = 1  # of whole groups, an update each
    passes: int = 1  # over a step's rollouts
    steps: int = STEPS  # of PROMPTS · GROUP rollouts each
    stored: float = 0.0  # share of a group's rollouts that are stored ones
    reference: bool = False  # log-probs of the initial policy are needed
    same_steps: bool = False  # `steps` counts steps instead of rollouts


_OFF: dict[str, Any] = {"advantage": "centred", "objective": {"alpha": False}, "keep": "all"}
_NO_KL = {"regularize": {"kl": 0.0}}


def _gmpo(name: str, **objective: Any) -> Arm:
    return Arm(name=name, method="gmpo", overrides={"objective": objective}, slices=8)


def _gvpo(name: str, stored: float = 0.0, **objective: Any) -> Arm:
    changed = {"objective": objective}
    return Arm(name=name, method="gvpo", overrides=changed, slices=2, passes=2, stored=stored)


_GMPO = [
    Arm(name="grpo, clip 0.2, no KL", method="grpo", overrides=_NO_KL, slices=8),
    _gmpo("gmpo, clip 0.2", clip_low=0.2, clip_high=0.2),
    _gmpo("gmpo, clip 0.4"),
    _gmpo("gmpo, no clip", clip="none"),
]

COMPARISONS: dict[str, list[Arm]] = {
    "gpg": [
        Arm(name="A", method="gpg", overrides=_OFF | {"advantage": "standardised"}),
        Arm(name="B", method="gpg", overrides=_OFF),
        Arm(name="C", method="gpg", overrides={"keep": "all"}),
        Arm(name="D", method="gpg"),
        Arm(name="D_steps", method="gpg", same_steps=True),
    ],
    "gmpo": _GMPO,
    "gmpo_fast": [_GMPO[0], _GMPO[2]],
    "cw": [
        Arm(name="grpo", method="grpo", slices=4, reference=True),
        Arm(name="cw_grpo", method="cw_grpo", slices=4, reference=True),
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

FASTER = {"gmpo_fast": ("gmpo", 5.0)}  # another comparison's rate, so many times: there clips bind
