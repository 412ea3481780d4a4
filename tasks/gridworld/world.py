"""Rooms on a grid: positions, moves and shortest paths. Cells are (column, row) from the top left."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from vlrft.schema import DataError

Cell = tuple[int, int]
MAX_MISSES = 5000  # consecutive draws without a new room, after which none is expected
MOVES: dict[str, Cell] = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}


@dataclass(frozen=True, kw_only=True)
class Room:
    """A state. Hashable, so that equal states of several episodes can be grouped."""

    size: int
    agent: Cell
    goal: Cell
    walls: frozenset[Cell]

    def after(self, move: str) -> Room:
        """The state after a move; a move against a wall or the edge changes nothing."""
        (x, y), (dx, dy) = self.agent, MOVES[move]
        target = (x + dx, y + dy)
        return replace(self, agent=target) if self.is_free(target) else self

    def is_free(self, cell: Cell) -> bool:
        return all(0 <= v < self.size for v in cell) and cell not in self.walls

    def shortest_path(self) -> tuple[str, ...] | None:
        """The moves of a shortest path to the goal, the first one in the order of MOVES; None if there is no path."""
        previous: dict[Cell, tuple[Room, str] | None] = {self.agent: None}
        queue: deque[Room] = deque([self])
        while queue:
            room = queue.popleft()
            if room.agent == self.goal:
                moves: list[str] = []
                while (step := previous[room.agent]) is not None:
                    room, move = step
                    moves.append(move)
                return tuple(reversed(moves))
            for move in MOVES:
                neighbour = room.after(move)
                if neighbour.agent not in previous:
                    previous[neighbour.agent] = room, move
                    queue.append(neighbour)
        return None


def draw_rooms(
    random: np.random.Generator,
    count: int,
    size: int,
    walls: int,
    moves: tuple[int, int],
    *,
    held_out: bool,
) -> list[tuple[Room, int]]:
    """Distinct rooms with the distance of their goals, which is within `moves`: the fewest and the most moves.

    `held_out`: whether to draw from the held-out rooms, one in five by a hash of the room. Raises DataError if there are
    fewer than `count` rooms.
    """
    least, most = moves
    rooms: dict[Room, int] = {}
    misses = 0
    while len(rooms) < count:
        picked = random.choice(size * size, walls + 2, replace=False)
        agent, goal, *blocked = ((int(k) % size, int(k) // size) for k in picked)
        room = Room(size=size, agent=agent, goal=goal, walls=frozenset(blocked))
        content = repr((agent, goal, sorted(blocked))).encode()
        is_new = (crc32(content) % 5 == 0) == held_out and room not in rooms
        path = room.shortest_path() if is_new else None
        misses += 1
        if path is not None and least <= len(path) <= most:
            rooms[room], misses = len(path), 0
        if misses > MAX_MISSES:
            raise DataError(
                f"gridworld: {count} rooms were requested, but there are about {len(rooms)} of {size} x {size} cells with "
                f"{walls} walls, {least} to {most} moves from the goal; request fewer, or raise task.options.size"
            )
    return list(rooms.items())
