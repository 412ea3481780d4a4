"""The named bundles: a name is a full choice of advantage, objective, reduction and keep rule.

A method of your own: a frozen dataclass with `needs` and `__call__` (see `objectives/`), and an `Algorithm` that names
it, in a file that the config points at (`algorithm: ./mine.py:mine`) or as one more line of `ALGORITHMS`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, get_args

from jaxtyping import Float
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from vlrft.advantages import ESTIMATORS
from vlrft.config import ConfigError
from vlrft.objectives import LossBatch, Needs, Objective, Reduction, Terms, guard, reduce
from vlrft.objectives.gpg import Gpg
from vlrft.objectives.policy_gradient import PolicyGradient
from vlrft.objectives.ratio import ClippedRatio
from vlrft.plugins import load_attribute
from vlrft.selection.keep import Accumulate, Keep, KeepAll


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """A method: what turns groups into advantages, log-probs into a loss, and which groups count."""

    name: str
    doc: str
    paper: str
    objective: Objective
    advantage: str = "centred"
    reduction: Reduction = "sequence"
    keep: Keep = field(default_factory=KeepAll)
    answers: Literal["sampled", "gold"] = "sampled"

    def describe(self) -> dict[str, str]:
        """What a person wants to know before choosing the method."""
        needs = [f.name for f in dataclasses.fields(Needs) if getattr(self.objective.needs, f.name)]
        return {
            "doc": self.doc,
            "paper": self.paper,
            "advantage": f"{self.advantage}: {ESTIMATORS[self.advantage].doc}",
            "objective": repr(self.objective),
            "reduction": self.reduction,
            "keep": repr(self.keep),
            "answers": self.answers,
            "needs": ", ".join(needs) or "nothing",
        }

    def loss(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> tuple[Tensor, Terms]:
        """The share of the step's loss that the given rows contribute, and the terms behind it."""
        terms = self.objective(guard(logprobs, batch.mask, "log-probs"), batch)
        return reduce(terms, batch, self.reduction), terms


_GPG = "arXiv 2504.02546"
_BUNDLES = (
    Algorithm(
        name="gpg",
        doc="Policy gradient on centred rewards; groups that teach nothing are resampled and do not dilute the step.",
        paper=f"{_GPG}, Eq. 5-8, Algorithm 1",
        objective=Gpg(),
        reduction="group",
        keep=Accumulate(share=0.6),
    ),
    Algorithm(
        name="gpg_vl_released",
        doc="GPG as the authors' vision-language trainers run it: a mean over rollouts, accumulation to 40 %.",
        paper=f"{_GPG}, released VL code",
        objective=Gpg(),
        reduction="sequence",
        keep=Accumulate(share=0.4),
    ),
    Algorithm(
        name="gpg_rs_released",
        doc="GPG as the authors' 1.5B text recipes run it: group-standardised, a mean over tokens, no α, no resampling.",
        paper=f"{_GPG}, released open-rs code",
        objective=Gpg(alpha=False),
        advantage="standardised",
        reduction="token",
    ),
    Algorithm(
        name="grpo",
        doc="Clipped importance ratio on group-standardised rewards with a KL penalty to the initial policy.",
        paper="arXiv 2402.03300, Eq. 3",
        objective=ClippedRatio(kl=0.04),
        advantage="standardised",
    ),
    Algorithm(
        name="sft",
        doc="Supervised warm-up: maximum likelihood of each sample's gold answer.",
        paper="none needed",
        objective=PolicyGradient(),
        advantage="one",
        reduction="token",
        answers="gold",
    ),
)
ALGORITHMS: Mapping[str, Algorithm] = {a.name: a for a in _BUNDLES}
_KEYS = ("advantage", "objective", "reduction", "keep")


def find_algorithm(choice: str | Mapping[str, Any]) -> Algorithm:
    """A bundle by name, `package.module:attribute` or `./file.py:attribute`; a mapping overrides parts of it.

    `{"name": "grpo", "objective": {"kl": 0.0}, "reduction": "token"}`. Raises ConfigError with all mistakes at once.
    """
    if isinstance(choice, str):
        return _by_name(choice)
    given = dict(choice)
    name = given.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(["algorithm: a mapping needs a `name`, such as {name: gpg, …}"])
    return override(_by_name(name), given)


def override(algorithm: Algorithm, changes: Mapping[str, Any]) -> Algorithm:
    """The bundle with some of its keys set; `objective` and `keep` are merged key by key."""
    mistakes = [
        f"algorithm.{k}: unknown key; allowed: {', '.join(_KEYS)}"
        for k in changes
        if k not in _KEYS
    ]
    parts: dict[str, Any] = {}
    for key, value in changes.items():
        if key in ("objective", "keep"):
            try:
                parts[key] = _merged(getattr(algorithm, key), value, f"algorithm.{key}")
            except ConfigError as e:
                mistakes += e.mistakes
        elif key in _KEYS:
            allowed = list(ESTIMATORS) if key == "advantage" else list(get_args(Reduction))
            if value not in allowed:
                mistakes.append(f"algorithm.{key}: {value!r}; allowed: {', '.join(allowed)}")
            parts[key] = value
    if mistakes:
        raise ConfigError(mistakes)
    return dataclasses.replace(algorithm, **parts)


def _by_name(name: str) -> Algorithm:
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    if ":" in name:
        found = load_attribute(name)
        if not isinstance(found, Algorithm):
            raise ConfigError([f"algorithm: {name} is a {type(found).__name__}, not an Algorithm"])
        return found
    near = get_close_matches(name, ALGORITHMS, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise ConfigError([f"algorithm: unknown {name!r}; {hint}known: {', '.join(ALGORITHMS)}"])


def _merged(part: Any, changes: Any, where: str) -> Any:
    known = {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}
    if not isinstance(changes, Mapping):
        raise ConfigError([f"{where}: expected a mapping of {', '.join(known)}"])
    try:
        return TypeAdapter(type(part)).validate_python(known | dict(changes))
    except ValidationError as e:
        raise ConfigError(
            [
                f"{where}.{'.'.join(map(str, m['loc']))}: "
                + (
                    f"unknown key; allowed: {', '.join(known) or 'none'}"
                    if m["loc"][-1] not in known
                    else f"{m['msg']}, got {m['input']!r}"
                )
                for m in e.errors()
            ]
        ) from None
