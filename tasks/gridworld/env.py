"""The environment: a picture of the room in every turn."""

from __future__ import annotations

from functools import lru_cache

from PIL import Image, ImageDraw

from vlrft.data import read_prompt
from vlrft.grading import read_answer
from vlrft.schema import IMAGE, Message, Observation, Sample, Step

from .options import Options
from .world import MOVES, Room

WALL, GOAL, AGENT, EDGE = "#404040", "#2ca02c", "#000000", "#ffffff"


@lru_cache(maxsize=4096)
def draw_picture(room: Room, cell: int) -> Image.Image:
    """An RGB picture of (2 · size − 1) · cell pixels a side, centred on the agent.

    The agent is a black disc, the goal a green square; walls and everything outside of the room are dark. The floor's tint
    depends on its position relative to the agent, for the sake of small vision models without position information.
    """
    reach = room.size - 1
    side = (2 * reach + 1) * cell
    image = Image.new("RGB", (side, side), WALL)
    pen = ImageDraw.Draw(image)
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            position = (room.agent[0] + dx, room.agent[1] + dy)
            if not room.is_free(position):
                continue
            at = (dx + reach, dy + reach)
            tint = (round(128 + 120 * dx / reach), 160, round(128 + 120 * dy / reach))
            pen.rectangle(_box(at, cell), fill=tint, outline=EDGE)
            if position == room.goal:
                pen.rectangle(_box(at, cell, cell // 4), fill=GOAL)
    pen.ellipse(_box((reach, reach), cell, cell // 4), fill=AGENT)
    return image


def _box(at: tuple[int, int], cell: int, margin: int = 0) -> tuple[int, int, int, int]:
    x, y = at[0] * cell, at[1] * cell
    return x + margin, y + margin, x + cell - 1 - margin, y + cell - 1 - margin


def question() -> tuple[Message, ...]:
    """The messages of every turn."""
    return (Message(role="user", content=(IMAGE, read_prompt(__file__, "ask"))),)


class GridWorld:
    """Ends with reward 1 when the agent reaches the goal, and without a reward after `max_steps` turns."""

    def __init__(self, sample: Sample) -> None:
        self.room: Room = sample.info["room"]
        self.options: Options = sample.info["options"]
        self.shortest = int(sample.tags["distance"])
        self.turns = self.valid_turns = 0

    def start(self) -> Observation:
        return self.observe(follows=False)

    def observe(self, *, follows: bool) -> Observation:
        image = draw_picture(self.room, self.options.cell)
        return Observation(
            messages=question(), images=(image,), follows=follows, shown="<image>", anchor=self.room
        )

    def step(self, text: str) -> Step:
        move = (read_answer(text) or "").strip().lower()
        valid = move in MOVES
        self.turns += 1
        self.valid_turns += valid
        if valid:
            self.room = self.room.after(move)
        won = self.room.agent == self.room.goal
        over = won or self.turns == self.options.max_steps
        return Step(
            observation=None if over else self.observe(follows=self.options.context == "growing"),
            reward=float(won),
            valid=valid,
            scores={
                "won": float(won),
                "steps": float(self.turns),
                "valid": self.valid_turns / self.turns,
                "directness": self.shortest / self.turns if won else 0.0,
            },
        )

    def close(self) -> None:
        """Nothing to release."""
