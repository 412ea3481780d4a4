"""Rooms with their receptacles, and the objects of a game in them: pure functions of a random generator."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from .families import CHANGES, FAMILIES, LAMPS, LAMPS_STAND_ON, OBJECTS, ROOMS

TWO, LOOK = FAMILIES[5], FAMILIES[1]
COPIES = 3  # the most of an object in a room, as in ALFRED
OTHERS = (10, 22)  # kinds of objects in addition to the target
WIDE, HIGH = (
    5.0,
    2.2,
)  # metres: the largest distance of an object from the middle of the room, and its largest height
BASINS = {"SinkBasin": "Sink", "BathtubBasin": "Bathtub"}  # their names in alfworld's ids


class NoTargetError(ValueError):
    """The family has no target in this scene; another draw may have one."""


@dataclass(frozen=True, kw_only=True)
class Receptacle:
    id: str
    kind: str
    location: str


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A room. `number`: its number among the rooms of its kind."""

    room: str
    number: int
    receptacles: tuple[Receptacle, ...]  # each at a different location
    start: str  # a location without a receptacle

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(sorted({r.kind for r in self.receptacles}))


@dataclass(frozen=True, kw_only=True)
class Item:
    id: str
    kind: str
    inside: Receptacle


@dataclass(frozen=True, kw_only=True)
class Target:
    """The objects of a game's goal; empty texts for those that the family does not have."""

    object: str
    receptacle: str = ""
    lamp: str = ""


@dataclass(frozen=True, kw_only=True)
class Layout:
    family: str
    scene: Scene
    target: Target
    items: tuple[Item, ...]


def draw_scene(seed: int, room: str, number: int) -> Scene:
    """A room, which depends on the arguments alone and not on the game played in it."""
    rng = random.Random(f"alfworld scene {seed} {room} {number}")
    coordinates = _draw_coordinates(rng, ())
    receptacles: list[Receptacle] = []
    for kind, (fewest, most) in ROOMS[room].items():
        for _ in range(rng.randint(fewest, most)):
            turn, tilt = rng.randint(0, 3), rng.choice((0, 30, 45, 60))
            place = f"loc_bar_{len(receptacles)}_bar_{rng.randint(0, 9)}_bar_{turn}_bar_{tilt}"
            receptacle_id = _make_id(kind, next(coordinates))
            receptacles.append(Receptacle(id=receptacle_id, kind=kind, location=place))
    start = f"loc_bar_{len(receptacles)}_bar_0_bar_0_bar_30"
    return Scene(room=room, number=number, receptacles=tuple(receptacles), start=start)


def draw_layout(family: str, scene: Scene, rng: random.Random) -> Layout:
    """The target of a game and the places of its objects. Raises NoTargetError."""
    target = _draw_target(family, scene, rng)
    coordinates = _draw_coordinates(rng, [r.id for r in scene.receptacles])
    excluded = {target.receptacle, CHANGES.get(family, ("", ""))[1]}
    fewest = 2 if family == TWO else 1
    items: list[Item] = []

    def place(kind: str, into: Sequence[Receptacle]) -> None:
        if not into:
            raise NoTargetError(
                f"{scene.room}{scene.number} has no other receptacle for {target.object}"
            )
        items.append(Item(id=_make_id(kind, next(coordinates)), kind=kind, inside=rng.choice(into)))

    for _ in range(rng.randint(fewest, COPIES)):
        place(target.object, _receptacles_for(scene, target.object, excluded))
    candidates = [o for o in OBJECTS[scene.room] if _receptacles_for(scene, o)]
    for kind in rng.sample(candidates, min(len(candidates), rng.randint(*OTHERS))):
        for _ in range(rng.randint(1, COPIES) if kind != target.object else 0):
            place(kind, _receptacles_for(scene, kind))
    lamps = [target.lamp] if target.lamp else LAMPS.get(scene.room, ())[:1]
    for lamp in lamps:
        place(lamp, [r for r in scene.receptacles if r.kind in LAMPS_STAND_ON])
    return Layout(family=family, scene=scene, target=target, items=tuple(items))


def keep_relevant(layout: Layout) -> Layout:
    """The layout with only the objects and receptacles that the goal is about, in which a plan is found quickly."""
    target = layout.target
    items = [i for i in layout.items if i.kind in (target.object, target.lamp)]
    kinds = {target.receptacle, CHANGES.get(layout.family, ("", ""))[1]}
    used = {i.inside.id for i in items}
    receptacles = [r for r in layout.scene.receptacles if r.kind in kinds or r.id in used]
    scene = replace(layout.scene, receptacles=tuple(receptacles))
    return replace(layout, scene=scene, items=tuple(items))


def can_contain(receptacle: str) -> frozenset[str]:
    """The kinds of objects that a kind of receptacle may contain, by alfworld's table."""
    from alfworld.gen import constants

    return frozenset(constants.VAL_RECEPTACLE_OBJECTS.get(receptacle, ()))


def _draw_target(family: str, scene: Scene, rng: random.Random) -> Target:
    """A random target of the family: an object that has a receptacle to start in and another to end in."""
    from alfworld.gen import constants

    objects = [o for o in OBJECTS[scene.room] if _receptacles_for(scene, o)]
    if family == LOOK:
        return Target(object=rng.choice(objects), lamp=rng.choice(LAMPS[scene.room]))
    quality, place = CHANGES.get(family, ("", ""))
    if quality:
        objects = [o for o in objects if o in constants.VAL_ACTION_OBJECTS[quality]]
    pairs = [
        (o, kind)
        for o in objects
        for kind in scene.kinds
        if kind != place and o in can_contain(kind) and _receptacles_for(scene, o, {kind, place})
    ]
    if not pairs:
        raise NoTargetError(f"{scene.room}{scene.number} has no target for {family}")
    item, receptacle = rng.choice(pairs)
    return Target(object=item, receptacle=receptacle)


def _receptacles_for(scene: Scene, kind: str, excluded: Collection[str] = ()) -> list[Receptacle]:
    """The receptacles that may contain this kind of object, except those of the excluded kinds."""
    return [r for r in scene.receptacles if r.kind not in excluded and kind in can_contain(r.kind)]


def _draw_coordinates(rng: random.Random, taken: Collection[str]) -> Iterator[str]:
    """Random coordinates in the notation of alfworld's ids, all different, and different from those of the ids `taken`."""
    used = {"_bar_".join(name.split("_bar_")[1:4]) for name in taken}
    while True:
        metres = (rng.uniform(-WIDE, WIDE), rng.uniform(0, HIGH), rng.uniform(-WIDE, WIDE))
        text = "_bar_".join(map(_format_number, metres))
        if text not in used:
            used.add(text)
            yield text


def _format_number(metres: float) -> str:
    """1.5 -> _plus_01_dot_50"""
    text = f"{metres:+06.2f}"
    return text.replace("+", "_plus_").replace("-", "_minus_").replace(".", "_dot_")


def _make_id(kind: str, coordinates: str) -> str:
    """An id in alfworld's notation; that of a sink ends with its basin, which the demangler adds to the name."""
    if kind in BASINS:
        return f"{BASINS[kind]}_bar_{coordinates}_bar_{kind}"
    return f"{kind}_bar_{coordinates}"
