"""A case of the campaign: its kind and seed, what is done, and the outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

Outcome = Literal["survived", "unclear", "lost", "wrong"]
WORST: tuple[Outcome, ...] = ("lost", "wrong", "unclear", "survived")
Plan = Mapping[str, Any]
"""The actions of a case, in JSON's types: they depend on the seed alone."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One observation of a case that is no survival: the outcome that it is, and a line that tells it."""

    outcome: Outcome
    text: str


@dataclass(frozen=True, kw_only=True)
class Result:
    """The findings of a case; none: it survived. `trials`: inputs that the case tried."""

    findings: tuple[Finding, ...] = ()
    trials: int = 1
    shown: str = ""  # the message that the user saw

    @property
    def outcome(self) -> Outcome:
        found = {finding.outcome for finding in self.findings}
        return next(outcome for outcome in WORST if outcome in found or outcome == "survived")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of case. `draw(random)` plans one, `run(plan, folder)` carries it out in an empty folder."""

    name: str
    doc: str
    draw: Callable[[Random], Plan]
    run: Callable[[Plan, Path], Result]
    share: float = 1.0  # of the campaign's time, relative to other kinds
    trains: bool = True  # whether it runs trainings, whose imports are then done once before
    needs: tuple[str, ...] = field(default=())  # modules without which the kind is left out
