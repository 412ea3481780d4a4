"""The arms of each comparison, as overrides of the published algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STEPS = 600
RATES, SWEEP_SEED = (5e-5, 1e-4, 2e-4, 5e-4, 1e-3), 100


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One side of a comparison: an algorithm with overrides, and how a step's rollouts are used."""

    name: str
    algorithm: str
    overrides: Mapping[str, Any] = field(default_factory=dict[str, Any])
    slices: int = 1  # parts of whole groups that a step's rollouts are split into, one update each
    passes: int = 1  # over a step's rollouts
    steps: int = STEPS  # of PROMPTS · GROUP rollouts each
    stored: float = (
        0.0  # share of a group's rollouts that are stored ones, not sampled in this step
    )
    reference: bool = False  # log-probs of the initial policy are needed
    same_steps: bool = False  # `steps` counts steps; else batches of sampled rollouts


_OFF: dict[str, Any] = {"advantage": "centred", "objective": {"alpha": False}, "keep": "all"}
_NO_KL = {"regularize": {"kl": 0.0}}


def _gmpo(name: str, **objective: Any) -> Arm:
    return Arm(name=name, algorithm="gmpo", overrides={"objective": objective}, slices=8)


def _gvpo(name: str, stored: float = 0.0, **objective: Any) -> Arm:
    overrides = {"objective": objective}
    return Arm(name=name, algorithm="gvpo", overrides=overrides, slices=2, passes=2, stored=stored)


_GMPO = [
    Arm(name="grpo, clip 0.2, no KL", algorithm="grpo", overrides=_NO_KL, slices=8),
    _gmpo("gmpo, clip 0.2", clip_low=0.2, clip_high=0.2),
    _gmpo("gmpo, clip 0.4"),
    _gmpo("gmpo, no clip", clip="none"),
]

COMPARISONS: dict[str, list[Arm]] = {
    "gpg": [
        Arm(name="A", algorithm="gpg", overrides=_OFF | {"advantage": "standardised"}),
        Arm(name="B", algorithm="gpg", overrides=_OFF),
        Arm(name="C", algorithm="gpg", overrides={"keep": "all"}),
        Arm(name="D", algorithm="gpg"),
        Arm(name="D_steps", algorithm="gpg", same_steps=True),
    ],
    "gmpo": _GMPO,
    "gmpo_fast": [_GMPO[0], _GMPO[2]],
    "cw": [
        Arm(name="grpo", algorithm="grpo", slices=4, reference=True),
        Arm(name="cw_grpo", algorithm="cw_grpo", slices=4, reference=True),
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

FASTER = {
    "gmpo_fast": ("gmpo", 5.0)
}  # rate: that comparison's, times the factor; clipping is active there
