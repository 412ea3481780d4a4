"""A player that goes through the places of a room in the order in which the first observation lists them.

It knows what a player reads: the task, what is in sight, and the admissible commands. Its next place can be copied from the
list, so that a policy without pretraining can learn to play like it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from .engine import Game, GameOutput
from .families import CHANGES

LISTED = re.compile(r"\b(?:a|an) (\w+ \d+)")
VERBS = {"Cleanable": "clean", "Heatable": "heat", "Coolable": "cool"}


@dataclass(kw_only=True)
class Sweep:
    """The search of one game: its goal, and what was seen and done so far."""

    thing: str
    target: str  # the kind of place where things are put; empty where the thing is looked at
    lamp: str  # empty where none is needed
    change: tuple[str, str] | None  # a verb, and the kind of place where it is possible
    places: list[str] = field(default_factory=list[str])  # in the order of the first observation
    ahead: list[str] = field(default_factory=list[str])  # those of them still to search
    here: str = ""
    lit: str = ""  # where the lamp was seen
    held: bool = False

    def choose(self, output: GameOutput) -> str | None:
        """The next command; None if every place was searched."""
        if not self.places:
            self.places = LISTED.findall(output.text)
            self.ahead = list(self.places)
        if self.lamp and self.here and f" {self.lamp} " in output.text:
            self.lit = self.here
        command = self._act(output) or self._go(output)
        self._remember(command)
        return command

    def _act(self, output: GameOutput) -> str | None:
        """The most useful command for what is in sight here; None if there is none."""
        at_target = self.target and self.here.startswith(f"{self.target} ")
        useful = "" if at_target else f"take {self.thing} "
        if self.held and self.change:
            useful = f"{self.change[0]} {self.thing} "
        elif self.held and at_target:
            useful = f"move {self.thing} "
        elif self.held:
            useful = f"use {self.lamp} " if self.lamp else ""
        for start in filter(None, (useful, f"open {self.here}")):
            command = next((c for c in output.admissible if c.startswith(start)), None)
            if command:
                return command
        return None

    def _go(self, output: GameOutput) -> str | None:
        """To the place where the thing in hand is needed, or else to the next one on the list."""
        kind = self.target
        if self.held and self.change:
            kind = self.change[1]
        if self.held and kind:
            return next((f"go to {p}" for p in self.places if p.startswith(f"{kind} ")), None)
        if self.held and self.lit:
            return f"go to {self.lit}"
        return f"go to {self.ahead.pop(0)}" if self.ahead else None

    def _remember(self, command: str | None) -> None:
        verb, _, rest = (command or "").partition(" ")
        if verb == "go":
            self.here = rest.removeprefix("to ")
        elif verb == "take":
            self.held = True
        elif verb == "move":
            self.held = False
        elif self.change and verb == self.change[0]:
            self.change = None


def read_goal(game: Game) -> Sweep:
    """The player of a game, from the record next to it. Raises OSError, ValueError or KeyError where that cannot be read."""
    record = json.loads(game.path.with_name("traj_data.json").read_text())
    names = {k: str(v).lower() for k, v in record["pddl_params"].items()}
    affordance, place = CHANGES.get(record["task_type"], ("", ""))
    return Sweep(
        thing=names["object_target"],
        target=names["parent_target"],
        lamp=names["toggle_target"],
        change=(VERBS[affordance], place.lower()) if affordance else None,
    )
