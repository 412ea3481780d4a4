"""Options of the games and their prompts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from vlrft.schema.ranges import Natural, Positive

from .families import FAMILIES, Family


@dataclass(frozen=True, kw_only=True)
class Options:
    """The games, the prompt, and the length of an episode."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    data: str | None = None
    """The folder with train, valid_seen and valid_unseen, or the one above ($ALFWORLD_DATA, with json_2.1.1)."""
    families: tuple[Family, ...] = FAMILIES
    """Only games of these families; their ids stay the same."""
    prompt: Literal["released", "short", "bare"] = "released"
    """The wording of verl-agent; a short one for small models; or bare: the short one without the admissible commands."""
    context: Literal["rebuilt", "growing"] = "rebuilt"
    """rebuilt: each turn has a separate prompt, which repeats the last turns; growing: the turns form one conversation."""
    history: Natural = 2
    """Turns that a rebuilt prompt repeats; 0: none, with the wording of the first turn."""
    max_steps: Positive = 50
    """Turns after which an episode ends."""
    invalid: Literal["unreadable", "inadmissible"] = "unreadable"
    """Turns that cost `task.env.invalid_penalty`: those without a readable action, as in verl-agent, or also those whose command is
    none of the admissible ones."""
    renamed: Natural = 0
    """Further copies of each game of train, in each of which objects have each other's names, and receptacles too: names then have
    to be read, where those of a few hundred games are learnt by heart."""
    expert: Literal["planner", "handcoded", "sweep"] = "planner"
    """The source of gold answers: the planner, which knows the complete state; alfworld's handcoded agent, which searches for
    objects where they usually are; or sweep, which searches the places as the first observation lists them. If a searching one does
    not win within max_steps, the planner is used."""
    thoughts: bool = False
    """Gold answers think of the thing that the task asks for, with its number where the command names it; false: of nothing."""

    def __post_init__(self) -> None:
        if self.context == "growing" and self.history != Options.history:
            raise ValueError(
                "history: has no effect with context: growing, which repeats no turn; leave it out"
            )
        if not self.families:
            raise ValueError(f"families is empty; use some of {', '.join(FAMILIES)}")
