"""What a config may choose about the games and how they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .families import FAMILIES, Family


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which games, which prompt, how long."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    data: str | None = None
    """The folder that holds train, valid_seen and valid_unseen."""
    families: tuple[Family, ...] = FAMILIES
    """The games of these alone; ids stay as they are."""
    prompt: Literal["released", "short"] = "released"
    """verl-agent's words, or few of them for small models."""
    context: Literal["rebuilt", "growing"] = "rebuilt"
    """Each turn a prompt of its own with the last turns retold, or one conversation that goes on."""
    history: int = 2
    """Turns that a rebuilt prompt retells; 0: none, in the words of the first turn."""
    max_steps: int = 50
    """Turns after which the play is over."""
    expert: Literal["planner", "handcoded"] = "planner"
    """Who gives the gold turns: the planner, who sees all, or alfworld's explorer, who looks for things; where that one does
    not win within max_steps, the planner."""

    def __post_init__(self) -> None:
        if not self.families:
            raise ValueError(f"families is empty; use some of {', '.join(FAMILIES)}")
        if self.history < 0:
            raise ValueError(f"history {self.history}: a number of turns, from 0 on")
        if self.max_steps < 1:
            raise ValueError(f"max_steps {self.max_steps}: a number of turns, from 1 on")
