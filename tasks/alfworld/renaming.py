"""Other names for the things of a game: objects take each other's names, and so do receptacles.

Which name means what then differs from one renamed game to the next, so a policy has to read names and cannot learn them by heart.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from .engine import GameOutput
from .families import OBJECTS, ROOMS

WORD = re.compile(r"\b[a-z]+\b")  # all names are such words


@dataclass(frozen=True)
class Renaming:
    """Names -> their replacements, one to one."""

    names: Mapping[str, str]

    @staticmethod
    def draw(seed: str) -> Renaming:
        """A function of the seed alone."""
        rng = random.Random(f"alfworld renaming {seed}")
        names: dict[str, str] = {}
        for rooms in (OBJECTS, ROOMS):
            kinds = sorted({kind.lower() for kinds in rooms.values() for kind in kinds})
            names |= zip(kinds, rng.sample(kinds, len(kinds)), strict=True)
        return Renaming(names)

    @cached_property
    def inverse(self) -> Renaming:
        return Renaming({new: old for old, new in self.names.items()})

    def text(self, text: str) -> str:
        """The text with each name replaced; names are whole words."""
        return WORD.sub(lambda match: self.names.get(match[0], match[0]), text)

    def output(self, output: GameOutput) -> GameOutput:
        """The output with each name replaced."""
        admissible = tuple(sorted(map(self.text, output.admissible)))
        return replace(output, text=self.text(output.text), admissible=admissible)


UNCHANGED = Renaming({name: name for rooms in (OBJECTS, ROOMS) for kinds in rooms.values() for name in map(str.lower, kinds)})  # fmt: skip


def renaming_of(game: str, copy: int) -> Renaming:
    """The renaming of a copy of a game; copy 0 is the game itself."""
    return Renaming.draw(f"{game} {copy}") if copy else UNCHANGED
