"""GPG and its released presets."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.gpg import Gpg
from vlrft.selection.group_filters import Accumulate

_PAPER = "arXiv 2504.02546"

ALGORITHMS = (
    Algorithm(
        name="gpg",
        doc="Policy gradient on centred rewards; groups of equal rewards are resampled and do not dilute the step.",
        paper=f"{_PAPER}, Eq. 5-8, Algorithm 1",
        objective=Gpg(),
        reduction="group",
        keep=Accumulate(share=0.6),
    ),
    Algorithm(
        name="gpg_vl_released",
        doc="GPG as the authors' vision-language trainers run it: a mean over rollouts, accumulation to 40 %.",
        paper=f"{_PAPER}, released VL code",
        objective=Gpg(),
        reduction="sequence",
        keep=Accumulate(share=0.4),
    ),
    Algorithm(
        name="gpg_rs_released",
        doc="GPG as the authors' 1.5B text recipes run it: group-standardised, a mean over tokens, no α, no resampling.",
        paper=f"{_PAPER}, released open-rs code",
        objective=Gpg(alpha=False),
        advantage="standardised",
        reduction="token",
    ),
)
